#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "control/clock.h"
#include "control/connection.h"
#include "control/handshake.h"
#include "control/session.h"

namespace taxon::control {

/// Rank 0's listener: challenges whoever connects and hands on those who know the secret, with their first
/// message. Strangers are turned away and change nothing.
class Acceptor final : public Connection::Owner {
 public:
  class Host {
   public:
    /// `address`: the caller's, numeric.
    virtual void arrived(std::unique_ptr<Connection> connection, Message hello,
                         const std::string& address) = 0;
    /// A caller was turned away; one line about it.
    virtual void turned_away(const std::string& why) = 0;

   protected:
    ~Host() = default;
  };

  Acceptor(const JoinOptions& options, Poller& poller, Host& host);
  ~Acceptor();

  /// Throws Error{Rendezvous}: the port is in use, or the address needs a secret.
  void open();
  /// Rank 0's own connection, which needs no proof.
  void admit_own(Fd fd);
  /// Drops callers that take too long.
  void tick(Clock::time_point now);
  /// "10.0.0.1:29500": where it listens, for people.
  const std::string& where() const { return where_; }

 private:
  struct Guest {
    std::unique_ptr<Connection> connection;
    enum class Stage { Answer, Hello } stage = Stage::Answer;
    Nonce nonce{};
    Clock::time_point since;
    std::string address;
  };

  void received(Connection& connection) override;
  void closed(Connection& connection, const std::string& reason) override;
  void accept_all();
  void welcome(Fd fd);
  /// True: the caller proved that it knows the secret.
  bool check_answer(Guest& guest, const std::array<std::byte, kAnswerBytes>& bytes);
  void turn_away(Connection& connection, const std::string& why);
  std::size_t max_guests() const;

  const JoinOptions& options_;
  Poller& poller_;
  Host& host_;
  Fd listener_;
  std::string where_;
  std::map<Connection*, Guest> guests_;
  std::set<std::string> reported_;
  bool resting_ = false;
};

}  // namespace taxon::control
