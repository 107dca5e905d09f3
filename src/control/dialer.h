#pragma once

#include <memory>
#include <string>
#include <vector>

#include "control/connection.h"
#include "control/handshake.h"
#include "control/session.h"

namespace taxon::control {

/// The other ranks' way to rank 0: resolves, connects and proves the secret, again and again until it works.
class Dialer final : public Connection::Owner {
 public:
  class Host {
   public:
    /// Both sides know the secret.
    virtual void connected(std::unique_ptr<Connection> connection, const Endpoint& hub) = 0;
    /// Trying again is no use.
    virtual void denied(const std::string& why) = 0;

   protected:
    ~Host() = default;
  };

  Dialer(const JoinOptions& options, Poller& poller, Host& host);
  ~Dialer();

  /// Begins to try (again), after a pause that grows with every failure.
  void retry(Clock::time_point now, const std::string& why);
  /// Goes on if it is time.
  void tick(Clock::time_point now);
  Clock::time_point wake_at() const { return wake_at_; }
  /// "cannot reach rank 0 at head:29500 (10.0.0.1:29500): Connection refused (errno 111)".
  std::string status() const;

 private:
  enum class Stage { Paused, Connecting, Challenge, Verdict, Done };
  void received(Connection& connection) override;
  void closed(Connection& connection, const std::string& reason) override;
  void dial(Clock::time_point now);
  void try_next(Clock::time_point now);
  void on_writable();
  void step(Connection& connection);
  void answer(const Challenge& challenge);
  void conclude(const Verdict& verdict);
  void drop();
  std::string secret_advice() const;

  const JoinOptions& options_;
  Poller& poller_;
  Host& host_;
  Stage stage_ = Stage::Paused;
  Clock::time_point wake_at_;
  std::chrono::milliseconds pause_;
  std::vector<Endpoint> endpoints_;
  std::size_t next_endpoint_ = 0;
  Fd connecting_;
  Endpoint current_;
  std::unique_ptr<Connection> connection_;
  Nonce hub_nonce_{}, own_nonce_{};
  HasSecret hub_has_secret_ = HasSecret::No;
  std::string last_problem_;
};

}  // namespace taxon::control
