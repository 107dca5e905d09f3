#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "control/clock.h"
#include "control/connection.h"
#include "control/handshake.h"
#include "control/session.h"

namespace taxon::control {

/// A name's meaning that is being asked for, on a thread of its own: the system's resolver may block for half
/// a minute and can't be called off.
class Lookup {
 public:
  /// Throws std::system_error if there is no thread for it. `other` is asked for where `host` means nothing.
  static std::shared_ptr<Lookup> start(const JoinOptions& options);
  /// Nothing yet.
  std::optional<Resolution> result();

 private:
  std::mutex mutex_;
  std::optional<Resolution> result_;
};

/// The other ranks' way to rank 0: resolves, connects and proves the secret, again and again until it works.
class Connector final : public Connection::Owner {
 public:
  class Host {
   public:
    /// Both sides know the secret.
    virtual void connected(std::unique_ptr<Connection> connection, const Endpoint& hub) = 0;
    /// Trying again is no use.
    virtual void denied(const Error& error) = 0;

   protected:
    ~Host() = default;
  };

  Connector(const JoinOptions& options, Poller& poller, Host& host);
  ~Connector();

  /// Begins to try (again), after a pause that grows with every failure.
  void retry(Clock::time_point now, const std::string& why);
  /// Goes on if it is time.
  void tick(Clock::time_point now);
  Clock::time_point wake_at() const { return wake_at_; }
  /// "cannot reach rank 0 at head:29500 (10.0.0.1:29500): Connection refused (errno 111)".
  std::string status() const;

 private:
  enum class Stage { Paused, Resolving, Connecting, Challenge, Verdict, Done };
  void received(Connection& connection) override;
  void closed(Connection& connection, const std::string& reason) override;
  void look_up(Clock::time_point now);
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
  std::shared_ptr<Lookup> lookup_;
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
