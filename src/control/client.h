#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/clock.h"
#include "control/clock_estimate.h"
#include "control/connector.h"
#include "control/diagnose.h"
#include "control/liveness.h"
#include "control/session.h"

namespace taxon::control {

/// A rank's half of the network: joins through rank 0, answers its heartbeats, and watches whether rank 0
/// itself lives. One thread: the session's.
class Client final : public Connector::Host, public Connection::Owner {
 public:
  struct Membership {
    std::uint64_t epoch = 0;
    std::vector<Member> members;
  };
  /// Gets what happens. May not destroy the client from inside a call.
  class Host {
   public:
    virtual void joined(Membership membership) = 0;
    virtual void join_failed(const Error& error) = 0;
    virtual void happened(const Event& event) = 0;
    virtual void exchanged(std::vector<std::vector<std::byte>> parts) = 0;
    virtual void clock_measured(std::int64_t offset_ns) = 0;
    /// Rank 0 confirmed this rank's end, or is gone itself.
    virtual void ended() = 0;

   protected:
    ~Host() = default;
  };

  Client(const JoinOptions& options, Poller& poller, Host& host);

  /// Joins by dialing rank 0.
  void dial();
  /// Joins over `own`, rank 0's connection to its own hub.
  void join_own(Fd own);
  void tick(Clock::time_point now);
  Clock::time_point wake_at() const { return wake_at_; }

  // REQUIRES: joined.
  void exchange(const std::string& what, std::vector<std::byte> bytes);
  void report(const std::vector<ReportedWait>& waits);
  void request_stop();
  void abort(ErrorKind kind, const std::string& message);
  void say_goodbye();

 private:
  enum class Stage { Dialing, Waiting, Measuring, Joined, Ending, Gone };
  using Handler = void (Client::*)(Message&);
  struct Row {
    const char* type;
    Handler handler;
  };
  static const Row kRows[];

  void connected(std::unique_ptr<Connection> connection, const Endpoint& hub) override;
  void denied(const Error& error) override;
  void received(Connection& connection) override;
  void closed(Connection& connection, const std::string& reason) override;
  void dispatch(Message& message);
  void on_refused(Message& message);
  void on_waiting(Message& message);
  void on_welcome(Message& message);
  void on_ping(Message& message);
  void on_event(Message& message);
  void on_result(Message& message);
  void on_farewell(Message& message);
  void say_hello();
  void happened(const Event& event);
  void fail_join(const Error& error);
  void tick_joining(Clock::time_point now);
  std::string joining_status() const;
  bool is_joining() const { return stage_ == Stage::Dialing || stage_ == Stage::Waiting; }
  bool is_hub_rank() const { return options_.rank.value() == 0; }

  const JoinOptions& options_;
  Poller& poller_;
  Host& host_;
  Connector connector_;
  Stage stage_ = Stage::Dialing;
  std::unique_ptr<Connection> connection_;
  std::string hub_address_;
  std::vector<std::int32_t> missing_;
  Membership membership_;
  ClockEstimate clock_;
  Liveness hub_liveness_;
  bool failed_ = false;
  bool exchanging_ = false;
  bool reported_waits_ = false;
  Clock::time_point started_, last_said_, last_report_, wake_at_;
};

}  // namespace taxon::control
