// Hub once the job runs: life signs, exchanges, failures, hangs.
#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "control/hub.h"

namespace taxon::control {
namespace {

// Somebody who lost a connection may say so before the kernel tells of the death that caused it.
constexpr std::chrono::milliseconds kEchoTime(300);

// A rank asks for eight at once while it joins.
constexpr std::size_t kQuickPings = 64;

/// Failures that are usually the consequence of somebody else's.
bool is_echo(ErrorKind kind) {
  return kind == ErrorKind::PeerLost || kind == ErrorKind::Transport || kind == ErrorKind::Deadline;
}

}  // namespace

constinit const Hub::Row Hub::kRows[] = {
    {"pong", &Hub::on_pong}, {"exchange", &Hub::on_exchange}, {"waits", &Hub::on_waits},
    {"stop", &Hub::on_stop}, {"abort", &Hub::on_abort},       {"goodbye", &Hub::on_goodbye},
};

Hub::Peer* Hub::peer_of(Connection& connection) {
  auto found = index_.find(&connection);
  return found == index_.end() ? nullptr : &peers_[found->second];
}

void Hub::received(Connection& connection) {
  Peer* peer = peer_of(connection);
  try {
    while (auto message = connection.next()) {
      dispatch(*peer, *message);
      if (peer_of(connection) != peer) return;  // gone, and the connection with it
    }
  } catch (const std::exception& error) {
    lose(*peer, fmt::format("it sent what this version does not understand: {}", error.what()));
  }
}

void Hub::dispatch(Peer& peer, Message& message) {
  const auto type = text_at(message.head, "type", kMaxName);
  if (phase_ != Phase::Running && type != "abort")
    throw ProtocolError("a message before the job has started");
  auto now = Clock::now();
  if (auto returned = liveness_.heard(peer.member.rank, now)) announce(*returned);
  // Who has said its last word answers pings, and that is all.
  if (peer.standing != Standing::Present && type != "pong") return;
  for (const Row& row : kRows)
    if (type == row.type) return (this->*row.handler)(peer, message);
  throw ProtocolError("a message of type '" + type + "'");
}

void Hub::closed(Connection& connection, const std::string& reason) { lose(*peer_of(connection), reason); }

void Hub::lose(Peer& peer, const std::string& reason) {
  index_.erase(peer.connection.get());
  peer.connection.reset();
  liveness_.remove(peer.member.rank);
  Standing before = peer.standing;
  const std::string how = fmt::format("{} (process {} at {})", reason, peer.member.pid, peer.member.address);
  if (phase_ != Phase::Running) {
    peer.standing = Standing::Absent;
    if (phase_ == Phase::Gathering)
      refuse_all(Error(ErrorKind::PeerLost,
                       fmt::format("rank {} was lost before all {} ranks were there: {}",
                                   peer.member.rank.value(), peers_.size(), how),
                       {.rank = peer.member.rank}));
    return;
  }
  if (before == Standing::Present) {
    peer.standing = Standing::Lost;
    peer.waits.clear();
    if (expendable_.contains(peer.member.rank))
      announce(Departed{peer.member.rank, how});
    else
      announce(PeerLost{peer.member.rank, how});
  } else if (before == Standing::Ending) {
    peer.standing = Standing::Lost;
  }
  end_exchange_without_the_gone();
  release_hub_rank();
}

void Hub::ping(Peer& peer) {
  peer.connection->send(Message{{{"type", "ping"},
                                 {"now", nanoseconds(Clock::now())},
                                 {"echo", peer.pong_sent},
                                 {"seen", peer.pong_seen}},
                                {}});
}

void Hub::on_pong(Peer& peer, Message& message) {
  peer.pong_sent = nanoseconds_at(message.head, "now");
  peer.pong_seen = nanoseconds(Clock::now());
  if (flag_at(message.head, "again") && ++peer.quick_pings <= kQuickPings) ping(peer);
}

void Hub::on_exchange(Peer& peer, Message& message) {
  if (peer.offered) throw ProtocolError("two exchanges at once");
  bool first =
      std::none_of(peers_.begin(), peers_.end(), [](const Peer& p) { return p.offered.has_value(); });
  if (first) exchange_since_ = exchange_said_ = Clock::now();
  peer.offered_as = text_at(message.head, "what", kMaxName);
  peer.offered = std::move(message.body);
  std::size_t bytes = 0;
  for (const Peer& p : peers_) bytes += p.offered ? p.offered->size() : 0;
  if (bytes > kMaxBody)
    return announce(
        Aborted{peer.member.rank, ErrorKind::Internal,
                fmt::format("the exchange '{}' is larger than {}", peer.offered_as, format_bytes(kMaxBody))});
  end_exchange_without_the_gone();
  if (std::all_of(peers_.begin(), peers_.end(), [](const Peer& p) { return p.offered.has_value(); }))
    finish_exchange();
}

void Hub::finish_exchange() {
  std::vector<std::vector<std::byte>> parts;
  for (Peer& peer : peers_) {
    if (peer.offered_as != peers_[0].offered_as)
      return announce(Aborted{peer.member.rank, ErrorKind::Mismatch,
                              fmt::format("it exchanges '{}' while rank 0 exchanges '{}'", peer.offered_as,
                                          peers_[0].offered_as)});
    parts.push_back(std::move(*peer.offered));
    peer.offered.reset();
  }
  Packed packed = pack(parts);
  broadcast(Message{{{"type", "result"}, {"number", exchanges_++}, {"sizes", packed.sizes}}, packed.bytes});
}

/// Who is gone can't join the exchange that others have begun, also one whom the job can otherwise do
/// without.
void Hub::end_exchange_without_the_gone() {
  auto begun =
      std::find_if(peers_.begin(), peers_.end(), [](const Peer& p) { return p.offered.has_value(); });
  if (begun == peers_.end()) return;
  for (const Peer& peer : peers_) {
    if (peer.offered) continue;
    if (peer.standing == Standing::Lost)
      announce(PeerLost{peer.member.rank,
                        fmt::format("it is gone (process {} at {}), and '{}' cannot be done without it",
                                    peer.member.pid, peer.member.address, begun->offered_as)});
    if (peer.standing == Standing::Left)
      announce(Aborted{peer.member.rank, ErrorKind::Mismatch,
                       fmt::format("it has left, and others exchange '{}' with it", begun->offered_as)});
  }
}

void Hub::report_exchange(Clock::time_point now) {
  std::vector<std::int32_t> late;
  std::string what;
  for (const Peer& peer : peers_) {
    if (peer.offered)
      what = peer.offered_as;
    else
      late.push_back(peer.member.rank.value());
  }
  if (late.empty() || late.size() == peers_.size() || failure_) return;
  if (now - exchange_said_ < options_.timeouts.progress) return;
  exchange_said_ = now;
  say(fmt::format("'{}' waits for rank{} {} ({})", what, late.size() == 1 ? "" : "s", fmt::join(late, ", "),
                  format_seconds(seconds(now - exchange_since_))));
}

void Hub::on_waits(Peer& peer, Message& message) {
  std::vector<ReportedWait> waits;
  for (const auto& json : list_at(message.head, "waits", kMaxWaits)) {
    ReportedWait wait{text_at(json, "operation", kMaxName),
                      {},
                      text_at(json, "subject", kMaxName),
                      seconds_at(json, "seconds")};
    if (json.contains("peer")) wait.peer = rank_at(json, "peer", options_.world_size);
    waits.push_back(std::move(wait));
  }
  peer.waits = std::move(waits);
  peer.waits_at = Clock::now();
  look_for_hang(peer.waits_at);
}

void Hub::look_for_hang(Clock::time_point now) {
  if (failure_) return;
  WaitPicture picture{.world_size = options_.world_size,
                      .silent = liveness_.silent(now),
                      .threshold = seconds(options_.timeouts.hang)};
  for (const Peer& peer : peers_) {
    if (!peer.waits.empty()) picture.waits[peer.member.rank] = peer.waits;
    if (peer.standing == Standing::Left || peer.standing == Standing::Lost)
      picture.left.insert(peer.member.rank);
  }
  if (auto report = hangs_.look(picture, now)) announce(*report);
}

void Hub::on_stop(Peer& peer, Message&) {
  if (stop_requested_) return;
  stop_requested_ = true;
  announce(StopRequested{peer.member.rank});
}

void Hub::on_abort(Peer& peer, Message& message) {
  Aborted aborted{peer.member.rank, kind_from_text(text_at(message.head, "kind", kMaxName)),
                  text_at(message.head, "message", kMaxText)};
  peer.standing = Standing::Ending;
  if (phase_ == Phase::Gathering) refuse_all(error_of(aborted));
  if (phase_ == Phase::Refused) return;
  if (failure_) return acknowledge_aborts();
  if (!is_echo(aborted.kind)) return announce(aborted);
  if (held_) return;
  held_ = aborted;
  held_until_ = Clock::now() + kEchoTime;
  wake_at_ = std::min(wake_at_, held_until_);
}

void Hub::release_held(Clock::time_point now) {
  if (held_ && now >= held_until_) announce(Event(*held_));
}

void Hub::acknowledge_aborts() {
  for (Peer& peer : peers_)
    if (peer.standing == Standing::Ending && peer.connection)
      peer.connection->send(Message{{{"type", "farewell"}}, {}});
}

void Hub::announce(const Event& event) {
  if (is_fatal(event)) {
    if (failure_) return;  // the first culprit counts; what follows is its consequence
    failure_ = event;
    held_.reset();
  }
  if (std::holds_alternative<Returned>(event)) {
    for (Peer& peer : peers_) peer.waits.clear();
    hangs_.calm(Clock::now());
  }
  broadcast(Message{{{"type", "event"}, {"event", to_json(event)}}, {}});
  if (is_fatal(event)) acknowledge_aborts();
}

void Hub::on_goodbye(Peer& peer, Message&) {
  peer.standing = Standing::Left;
  liveness_.remove(peer.member.rank);
  if (peer.member.rank.value() > 0) peer.connection->send(Message{{{"type", "farewell"}}, {}});
  end_exchange_without_the_gone();
  release_hub_rank();
}

void Hub::release_hub_rank() {
  // Rank 0 carries the network, so it goes last.
  if (peers_[0].standing != Standing::Left || !peers_[0].connection) return;
  bool alone = std::all_of(peers_.begin() + 1, peers_.end(), [](const Peer& peer) {
    return peer.standing == Standing::Left || peer.standing == Standing::Lost;
  });
  if (alone) peers_[0].connection->send(Message{{{"type", "farewell"}}, {}});
}

void Hub::broadcast(const Message& message) {
  Packet packet = encode(message);
  for (Peer& peer : peers_)
    if (peer.connection) peer.connection->send(packet);
}

}  // namespace taxon::control
