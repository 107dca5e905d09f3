#include "control/hub.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <limits>

#include "base/failure.h"
#include "base/units.h"

namespace taxon::control {
namespace {

std::string who_text(std::int64_t rank, std::int64_t pid, const std::string& address) {
  return fmt::format("rank {} (process {} at {})", rank, pid, address);
}

// The head of what a rank says once it has joined: nothing that rank 0 is told is long.
constexpr std::size_t kMaxReportHead = std::size_t{1} << 20;
// What a rank has open beside its connections: libraries, data, outputs.
constexpr rlim_t kOtherFiles = 64;

Message refused(const Error& error) {
  Message message{
      {{"type", "refused"}, {"kind", to_string(error.kind())}, {"message", clipped(error.what())}}, {}};
  if (error.context().rank) message.head["rank"] = error.context().rank->value();
  return message;
}

}  // namespace

Hub::Hub(const JoinOptions& options, Poller& poller, std::uint64_t epoch)
    : options_(options),
      poller_(poller),
      epoch_(epoch),
      acceptor_(options, poller, *this),
      peers_(static_cast<std::size_t>(options.world_size)),
      liveness_(options.timeouts),
      hangs_(options.timeouts.hang),
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
    throw Error(ErrorKind::Resources,
                fmt::format("rank 0 needs {} open files for {} ranks and may have {}: raise ulimit -n",
                            needed, options_.world_size, files.rlim_cur));
  acceptor_.open();
}

Fd Hub::connect_own() {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
    throw Error(kind_of(errno, ErrorKind::Rendezvous), "socketpair failed: " + errno_text(errno));
  acceptor_.admit_own(Fd(pair[0]));
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
  constexpr std::int64_t kAny = std::numeric_limits<std::int32_t>::max();
  compare("Taxon", text_at(head, "version", kMaxName), options_.version,
          "install the same version on every host");
  compare("world size", std::to_string(integer_at(head, "world", 1, kAny)),
          std::to_string(options_.world_size), "start all ranks with the same number of processes");
  compare("plan", text_at(head, "plan", kMaxName), options_.plan_hash,
          "give every rank the same recipe and the same --set");
  auto rank = integer_at(head, "rank", -kAny, kAny);
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
  Member member;
  try {
    constexpr std::int64_t kAny = std::numeric_limits<std::int32_t>::max();
    if (hello.head.at("type") != "hello") throw ProtocolError("its first message is no hello");
    member.pid = integer_at(hello.head, "pid", 0, kAny);
    member.rank = Rank(static_cast<std::int32_t>(integer_at(hello.head, "rank", -kAny, kAny)));
    member.host_id = text_at(hello.head, "host", kMaxName);
    who = who_text(member.rank.value(), member.pid, address);
    wrong = objections(hello, who);
    // All of them fit into one welcome.
    if (hello.body.size() > kMaxBody / peers_.size()) throw ProtocolError("its address is too long");
  } catch (const std::exception& error) {
    return say(fmt::format("{} was turned away: {}", who, error.what()));
  }
  if (phase_ != Phase::Gathering) {
    // Whatever comes now comes too late to matter to the job.
    const Error why =
        refusal_
            ? *refusal_
            : rendezvous_error(fmt::format("{} is too late: the job at rank 0 has started with all {} ranks",
                                           who, options_.world_size));
    connection->send(refused(why));
    return say(why.what());
  }
  if (!wrong.empty()) {
    const Error why = rendezvous_error(fmt::format("{}", fmt::join(wrong, "; ")));
    connection->send(refused(why));
    return refuse_all(why);
  }
  Peer& peer = peers_[static_cast<std::size_t>(member.rank.value())];
  peer.member = std::move(member);
  peer.member.address = address;
  peer.member.blob = std::move(hello.body);
  peer.standing = Standing::Present;
  connection->limit_frames({.head = kMaxReportHead});
  index_[connection.get()] = static_cast<std::size_t>(peer.member.rank.value());
  peer.connection = std::move(connection);
  peer.connection->set_owner(*this);
  if (missing().empty()) start();
}

void Hub::refuse_all(const Error& error) {
  phase_ = Phase::Refused;
  refusal_ = error;
  broadcast(refused(error));
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
  next_beat_ = now + options_.timeouts.heartbeat;
}

void Hub::report_gathering(Clock::time_point now) {
  auto absent = missing();
  auto list = fmt::format("rank{} {}", absent.size() == 1 ? "" : "s", fmt::join(absent, ", "));
  if (now - started_ >= options_.timeouts.join)
    return refuse_all(rendezvous_error(fmt::format(
        "only {} of {} ranks joined at {} within {}; missing: {}", peers_.size() - absent.size(),
        peers_.size(), acceptor_.where(), format_seconds(seconds(options_.timeouts.join)), list)));
  if (now - last_said_ < options_.timeouts.progress) return;
  last_said_ = now;
  say(fmt::format("rank 0 waits at {} for {} of {} ({} of {})", acceptor_.where(), list, peers_.size(),
                  format_seconds(seconds(now - started_)), format_seconds(seconds(options_.timeouts.join))));
  for (Peer& peer : peers_)
    if (peer.connection && peer.member.rank.value() > 0)
      peer.connection->send(Message{{{"type", "waiting"}, {"missing", absent}}, {}});
}

void Hub::tick(Clock::time_point now) {
  acceptor_.tick(now);
  release_held(now);
  if (phase_ == Phase::Gathering) report_gathering(now);
  if (phase_ == Phase::Running && now >= next_beat_) {
    next_beat_ = now + options_.timeouts.heartbeat;
    for (Peer& peer : peers_)
      if (peer.connection && !peer.connection->has_unsent()) ping(peer);
    for (const Event& event : liveness_.check(now)) {
      const auto* passed = std::get_if<DeadlinePassed>(&event);
      if (passed != nullptr && expendable_.contains(passed->rank))
        lose(peers_[static_cast<std::size_t>(passed->rank.value())],
             fmt::format("it has been silent for {}", format_seconds(passed->seconds)));
      else
        announce(event);
    }
    report_exchange(now);
    look_for_hang(now);
  }
  wake_at_ = phase_ == Phase::Running ? next_beat_ : now + options_.timeouts.heartbeat;
  if (held_) wake_at_ = std::min(wake_at_, held_until_);
}

bool Hub::is_drained() const {
  return std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
    return !peer.connection || peer.member.rank.value() == 0 ||
           (!peer.connection->has_unsent() && unconfirmed_bytes(peer.connection->fd()) == 0);
  });
}

}  // namespace taxon::control
