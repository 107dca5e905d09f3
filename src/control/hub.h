#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/acceptor.h"
#include "control/clock.h"
#include "control/hang_watch.h"
#include "control/liveness.h"
#include "control/session.h"

namespace taxon::control {

/// Rank 0's half of the network: it gathers the ranks, keeps track of who lives, and passes on what all must
/// know. Rank 0 itself is a client like any other, over a socket pair. One thread: the session's.
class Hub final : public Acceptor::Host, public Connection::Owner {
 public:
  Hub(const JoinOptions& options, Poller& poller, std::uint64_t epoch);
  ~Hub();

  /// Listens, unless rank 0 is alone. Throws Error{Rendezvous}.
  void open();
  /// Rank 0's own end of a connection to this hub.
  Fd connect_own();
  void tick(Clock::time_point now);
  Clock::time_point wake_at() const { return wake_at_; }
  /// From now on the loss of these ranks is told, and ends nothing.
  void set_expendable(std::vector<Rank> ranks) { expendable_ = {ranks.begin(), ranks.end()}; }
  /// All that was sent has been confirmed by the receivers' kernels.
  bool is_drained() const;

 private:
  enum class Phase { Gathering, Running, Refused };
  enum class Standing { Absent, Present, Ending, Left, Lost };
  struct Peer {
    std::unique_ptr<Connection> connection;
    Standing standing = Standing::Absent;
    Member member;
    std::vector<ReportedWait> waits;
    Clock::time_point waits_at;
    std::optional<std::vector<std::byte>> offered;  // its part of the current exchange
    std::string offered_as;
    std::size_t quick_pings = 0;                // that it asked for, beside the heartbeats
    std::int64_t pong_sent = 0, pong_seen = 0;  // the peer's clock and ours, in nanoseconds
  };
  using Handler = void (Hub::*)(Peer&, Message&);
  struct Row {
    const char* type;
    Handler handler;
  };
  static const Row kRows[];

  // Gathering.
  void arrived(std::unique_ptr<Connection> connection, Message hello, const std::string& address) override;
  void turned_away(const std::string& why) override;
  std::vector<std::string> objections(const Message& hello, const std::string& who) const;
  void refuse_all(const Error& error);
  void start();
  void report_gathering(Clock::time_point now);
  std::vector<std::int32_t> missing() const;

  // Running.
  void received(Connection& connection) override;
  void closed(Connection& connection, const std::string& reason) override;
  void dispatch(Peer& peer, Message& message);
  void on_pong(Peer& peer, Message& message);
  void on_exchange(Peer& peer, Message& message);
  void on_waits(Peer& peer, Message& message);
  void on_stop(Peer& peer, Message& message);
  void on_abort(Peer& peer, Message& message);
  void on_goodbye(Peer& peer, Message& message);
  void ping(Peer& peer);
  void lose(Peer& peer, const std::string& reason);
  void finish_exchange();
  void end_exchange_without_the_gone();
  void report_exchange(Clock::time_point now);
  void look_for_hang(Clock::time_point now);
  void release_hub_rank();
  void announce(const Event& event);
  void release_held(Clock::time_point now);
  void acknowledge_aborts();
  void broadcast(const Message& message);
  Peer* peer_of(Connection& connection);
  void say(const std::string& line) const;

  const JoinOptions& options_;
  Poller& poller_;
  std::uint64_t epoch_;
  Acceptor acceptor_;
  Phase phase_ = Phase::Gathering;
  std::optional<Error> refusal_;
  std::vector<Peer> peers_;
  std::map<Connection*, std::size_t> index_;
  Liveness liveness_;
  std::optional<Event> failure_;
  std::optional<Event> held_;  // an abort that may only be the echo of a death
  Clock::time_point held_until_;
  bool stop_requested_ = false;
  std::uint64_t exchanges_ = 0;
  Clock::time_point exchange_since_, exchange_said_;
  std::set<Rank> expendable_;
  HangWatch hangs_;
  Clock::time_point started_, last_said_, next_beat_, wake_at_;
};

}  // namespace taxon::control
