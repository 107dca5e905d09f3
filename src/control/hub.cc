#include "control/hub.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/units.h"

namespace taxon::control {
namespace {

std::string who_text(std::int64_t rank, std::int64_t pid, const std::string& address) {
  return fmt::format("rank {} (process {} at {})", rank, pid, address);
}

// What a rank has open beside its connections: libraries, data, outputs.
constexpr rlim_t kOtherFiles = 64;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

Hub::Hub(const JoinOptions& options, Poller& poller, std::uint64_t epoch)
    : options_(options),
      poller_(poller),
      epoch_(epoch),
      door_(options, poller, *this),
      peers_(static_cast<std::size_t>(options.world_size)),
      liveness_(options.patience),
      hangs_(options.patience.hang),
      started_(Clock::now()),
      last_said_(started_),
      next_beat_(started_),
      wake_at_(started_) {}

Hub::~Hub() = default;

void Hub::open() {
  if (options_.world_size == 1) return;
  rlimit files{};
  auto needed = static_cast<rlim_t>(options_.world_size) + kOtherFiles;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < needed)
    throw Error(ErrorKind::Rendezvous,
                fmt::format("rank 0 needs {} open files for {} ranks and may have {}: raise ulimit -n",
                            needed, options_.world_size, files.rlim_cur));
  door_.open();
}

Fd Hub::connect_own() {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
    throw Error(ErrorKind::Rendezvous, "socketpair failed: " + errno_text(errno));
  door_.admit_own(Fd(pair[0]));
  return Fd(pair[1]);
}

void Hub::say(const std::string& line) const {
  if (options_.progress) options_.progress(line);
}

void Hub::turned_away(const std::string& why) { say(why); }

std::vector<std::string> Hub::objections(const Message& hello, const std::string& who) const {
  std::vector<std::string> found;
  auto compare = [&](const char* what, const std::string& theirs, const std::string& ours,
                     const char* advice) {
    if (theirs != ours)
      found.push_back(fmt::format("{} has {} {}, rank 0 has {}: {}", who, what, theirs, ours, advice));
  };
  const auto& head = hello.head;
  compare("Taxon", head.at("version"), options_.version, "install the same version on every host");
  compare("world size", std::to_string(head.at("world").get<std::int64_t>()),
          std::to_string(options_.world_size), "start all ranks with the same number of processes");
  compare("plan", head.at("plan"), options_.plan_hash, "give every rank the same recipe and the same --set");
  auto rank = head.at("rank").get<std::int64_t>();
  if (rank < 0 || rank >= options_.world_size) {
    if (found.empty())
      found.push_back(fmt::format("{} is outside of a world of {}", who, options_.world_size));
  } else if (const Peer& taken = peers_[static_cast<std::size_t>(rank)]; taken.standing != Standing::Absent) {
    found.push_back(fmt::format("{} is there twice: the other is process {} at {}", who, taken.member.pid,
                                taken.member.address));
  }
  return found;
}

void Hub::arrived(std::unique_ptr<Connection> connection, Message hello, const std::string& address) {
  std::string who = "a caller from " + address;
  std::vector<std::string> wrong;
  try {
    if (hello.head.at("type") != "hello") throw ProtocolError("its first message is no hello");
    who = who_text(hello.head.at("rank"), hello.head.at("pid"), address);
    wrong = objections(hello, who);
    if (wrong.empty() && phase_ == Phase::Gathering) {
      Rank rank(hello.head.at("rank").get<std::int32_t>());
      Peer& peer = peers_[static_cast<std::size_t>(rank.value())];
      peer.member = {rank, hello.head.at("host"), hello.head.at("pid"), address, std::move(hello.body)};
    }
  } catch (const std::exception& error) {
    return say(fmt::format("{} was turned away: {}", who, error.what()));
  }
  if (phase_ != Phase::Gathering) {
    // Whatever comes now comes too late to matter to the job.
    std::string why = phase_ == Phase::Refused
                          ? refusal_
                          : fmt::format("{} is too late: the job at rank 0 has started with all {} ranks",
                                        who, options_.world_size);
    connection->send(Message{{{"type", "refused"}, {"message", why}}, {}});
    return say(why);
  }
  if (!wrong.empty()) {
    std::string why = fmt::format("{}", fmt::join(wrong, "; "));
    connection->send(Message{{{"type", "refused"}, {"message", why}}, {}});
    return refuse_all(why);
  }
  Peer& peer = peers_[static_cast<std::size_t>(hello.head.at("rank").get<std::int32_t>())];
  peer.standing = Standing::Present;
  index_[connection.get()] = static_cast<std::size_t>(peer.member.rank.value());
  peer.connection = std::move(connection);
  peer.connection->set_owner(*this);
  if (missing().empty()) start();
}

void Hub::refuse_all(const std::string& why) {
  phase_ = Phase::Refused;
  refusal_ = why;
  broadcast(Message{{{"type", "refused"}, {"message", why}}, {}});
}

std::vector<std::int32_t> Hub::missing() const {
  std::vector<std::int32_t> ranks;
  for (std::size_t r = 0; r < peers_.size(); ++r)
    if (peers_[r].standing == Standing::Absent) ranks.push_back(static_cast<std::int32_t>(r));
  return ranks;
}

void Hub::start() {
  phase_ = Phase::Running;
  nlohmann::json members = nlohmann::json::array();
  std::vector<std::vector<std::byte>> blobs;
  for (const Peer& peer : peers_) {
    members.push_back(
        {{"host", peer.member.host_id}, {"pid", peer.member.pid}, {"address", peer.member.address}});
    blobs.push_back(peer.member.blob);
  }
  Packed packed = pack(blobs);
  broadcast(Message{{{"type", "welcome"}, {"epoch", epoch_}, {"members", members}, {"sizes", packed.sizes}},
                    packed.bytes});
  auto now = Clock::now();
  for (Peer& peer : peers_) {
    if (peer.member.rank.value() > 0) liveness_.add(peer.member.rank, now);
    ping(peer);
  }
  next_beat_ = now + options_.patience.heartbeat;
}

void Hub::report_gathering(Clock::time_point now) {
  auto absent = missing();
  auto list = fmt::format("rank{} {}", absent.size() == 1 ? "" : "s", fmt::join(absent, ", "));
  if (now - started_ >= options_.patience.join)
    return refuse_all(fmt::format("only {} of {} ranks joined at {} within {}; missing: {}",
                                  peers_.size() - absent.size(), peers_.size(), door_.where(),
                                  format_seconds(seconds(options_.patience.join)), list));
  if (now - last_said_ < options_.patience.progress) return;
  last_said_ = now;
  say(fmt::format("rank 0 waits at {} for {} of {} ({} of {})", door_.where(), list, peers_.size(),
                  format_seconds(seconds(now - started_)), format_seconds(seconds(options_.patience.join))));
  for (Peer& peer : peers_)
    if (peer.connection && peer.member.rank.value() > 0)
      peer.connection->send(Message{{{"type", "waiting"}, {"missing", absent}}, {}});
}

void Hub::tick(Clock::time_point now) {
  door_.tick(now);
  release_held(now);
  if (phase_ == Phase::Gathering) report_gathering(now);
  if (phase_ == Phase::Running && now >= next_beat_) {
    next_beat_ = now + options_.patience.heartbeat;
    for (Peer& peer : peers_)
      if (peer.connection && !peer.connection->has_unsent()) ping(peer);
    for (const Event& event : liveness_.check(now)) announce(event);
    report_exchange(now);
    look_for_hang(now);
  }
  wake_at_ = phase_ == Phase::Running ? next_beat_ : now + options_.patience.heartbeat;
  if (held_) wake_at_ = std::min(wake_at_, held_until_);
}

bool Hub::is_drained() const {
  return std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
    return !peer.connection || peer.member.rank.value() == 0 ||
           (!peer.connection->has_unsent() && unconfirmed_bytes(peer.connection->fd()) == 0);
  });
}

}  // namespace taxon::control
