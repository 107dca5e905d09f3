#include "launch/identity.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "launch/launcher_env.h"

namespace taxon::launch {
namespace {

constexpr int kDefaultPort = 29500;
constexpr const char* kLoopback = "127.0.0.1";

struct Heard {
  const Dialect* dialect;
  LauncherInfo claim;
  bool is_complete() const { return claim.rank && claim.size; }
};

/// A port that all ranks of a job derive alike. Below the range from which the system takes ports for
/// outgoing connections, so that one of those is not in the way.
int port_of_job(const std::string& job) {
  constexpr int kFirst = 12'000, kCount = 16'000;
  return kFirst + static_cast<int>(XXH3_64bits(job.data(), job.size()) % kCount);
}

bool is_loopback_name(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::string says(const LauncherInfo& claim) {
  std::string size = claim.size ? fmt::format(" of {}", *claim.size) : "";
  return fmt::format("{} says rank {}{}", claim.origin, *claim.rank, size);
}

/// From what the dialects say to one identity.
class Decision {
 public:
  explicit Decision(const Environment& env) : env_(env) {
    for (const Dialect& dialect : dialects())
      if (dialect.spoken(env)) heard_.push_back({&dialect, dialect.read(env, result_.problems)});
  }

  Identification decide() {
    find_incomplete();
    for (Level level : {Level::Inner, Level::Middle, Level::Outer})
      if (chosen_ == nullptr) choose(level);
    if (chosen_ != nullptr) take(chosen_->claim);
    if (result_.problems.empty()) describe();
    return std::move(result_);
  }

 private:
  void find_incomplete() {
    bool any = std::any_of(heard_.begin(), heard_.end(), [](const Heard& h) { return h.is_complete(); });
    for (const Heard& h : heard_) {
      if (h.is_complete() || (any && h.dialect->alone == Alone::Corroborates)) continue;
      const LauncherInfo& claim = h.claim;
      if (claim.rank)
        problem("{} gives this process rank {}, but no number of ranks: set {}", claim.origin, *claim.rank,
                claim.size_key.empty() ? "RANK, WORLD_SIZE and MASTER_ADDR" : claim.size_key);
      else if (claim.size.value_or(1) > 1)
        problem("{} has started {} processes, but {} is not set: each would be rank 0 of 1", claim.origin,
                *claim.size, claim.rank_key);
    }
  }

  void choose(Level level) {
    for (const Heard& h : heard_) {
      if (h.dialect->level != level || !h.claim.rank) continue;
      if (chosen_ == nullptr && h.is_complete()) {
        chosen_ = &h;
      } else if (chosen_ != nullptr && !agree(h.claim, chosen_->claim)) {
        problem("{}, but {}: unset the variables that are left over from another launcher",
                says(chosen_->claim), says(h.claim));
      }
    }
  }

  static bool agree(const LauncherInfo& a, const LauncherInfo& b) {
    return a.rank == b.rank && (!a.size || !b.size || a.size == b.size);
  }

  void take(const LauncherInfo& claim) {
    Identity& id = result_.identity;
    id.origin = claim.origin;
    id.rank = *claim.rank;
    id.world_size = *claim.size;
    if (id.world_size < 1 || id.rank >= id.world_size)
      problem("{}={} is outside of a world of {} ({})", claim.rank_key, id.rank, id.world_size,
              claim.size_key);
    for (const Heard& h : heard_)
      if (id.world_size == 1 && h.claim.size.value_or(1) > 1)
        problem(
            "{} has started {} processes, but {} tells each that it is rank 0 of 1: they would train {} "
            "times the same",
            h.claim.origin, *h.claim.size, claim.origin, *h.claim.size);
    // What the launcher itself does not know, one that started it and agrees with it may.
    LauncherInfo all = claim;
    for (const Heard& h : heard_)
      if (agree(h.claim, claim)) fill(all, h.claim);
    take_local(all);
    if (id.world_size > 1) take_master(all);
  }

  static void fill(LauncherInfo& to, const LauncherInfo& from) {
    if (!to.local_rank) to.local_rank = from.local_rank;
    if (!to.local_size) to.local_size = from.local_size;
    if (!to.node_rank) to.node_rank = from.node_rank;
    if (to.host.empty()) {
      to.host = from.host;
      to.other_host = from.other_host;
    }
    if (!to.port) to.port = from.port;
    if (to.job.empty()) to.job = from.job;
  }

  void take_local(const LauncherInfo& claim) {
    Identity& id = result_.identity;
    bool all_here = is_loopback_name(value_of(env_, "MASTER_ADDR"));
    id.local_world_size = claim.local_size.value_or(all_here ? id.world_size : 1);
    id.local_rank = claim.local_rank.value_or(all_here ? id.rank : 0);
    id.node_rank = claim.node_rank;
    if (claim.local_size && id.local_rank >= id.local_world_size)
      problem("{} says local rank {} of {}", claim.origin, id.local_rank, id.local_world_size);
  }

  void take_master(const LauncherInfo& claim) {
    Identity& id = result_.identity;
    std::string given = value_of(env_, "MASTER_ADDR");
    // Loopback needs no secret and no name that this host resolves to one of its addresses.
    if (claim.local_size == claim.size)
      id.master_addr = kLoopback;
    else if (!given.empty())
      id.master_addr = given;
    else if (claim.host.empty())
      problem("MASTER_ADDR is not set, and {} does not say where rank 0 of {} is: {}", claim.origin,
              id.world_size, claim.host_advice);
    else {
      id.master_addr = claim.host;
      id.other_master_addr = claim.other_host;
    }
    take_port(claim);
  }

  void take_port(const LauncherInfo& claim) {
    Identity& id = result_.identity;
    std::vector<std::string> wrong;
    auto given = number_of(env_, "MASTER_PORT", wrong);
    for (std::string& w : wrong) problem("{}", w);
    if (claim.port) {
      id.master_port = *claim.port;
      port_note_ = claim.port_note;
    } else if (given) {
      id.master_port = *given;
    } else if (!claim.job.empty()) {
      id.master_port = port_of_job(claim.job);
      port_note_ = "from the job's id " + claim.job;
    } else {
      id.master_port = kDefaultPort;
      port_note_ = "MASTER_PORT is not set";
    }
    if (id.master_port < 1 || id.master_port > 65535)
      problem("MASTER_PORT={} is not a port (1 to 65535)", id.master_port);
  }

  void describe() {
    Identity& id = result_.identity;
    id.text = fmt::format("{}: rank {} of {}", id.origin, id.rank, id.world_size);
    if (id.world_size == 1) return;
    std::string note = port_note_.empty() ? "" : " (port: " + port_note_ + ")";
    id.text += fmt::format(", local rank {} of {}, rank 0 at {}:{}{}", id.local_rank, id.local_world_size,
                           id.master_addr, id.master_port, note);
  }

  template <class... Args>
  void problem(fmt::format_string<Args...> format, Args&&... args) {
    std::string text = fmt::format(format, std::forward<Args>(args)...);
    auto& all = result_.problems;
    if (std::find(all.begin(), all.end(), text) == all.end()) all.push_back(std::move(text));
  }

  const Environment& env_;
  std::vector<Heard> heard_;
  const Heard* chosen_ = nullptr;
  std::string port_note_;
  Identification result_;
};

}  // namespace

Identification identify(const Environment& environment) { return Decision(environment).decide(); }

}  // namespace taxon::launch
