#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/time.h"
#include "net/tcp/handshake.h"
#include "net/tcp/socket.h"
#include "net/tcp/stream.h"

namespace taxon::net::tcp {

/// Where peers call this rank: challenges whoever connects and hands on those who prove the job's key. From
/// strangers it reads one packet of fixed size; they cost one descriptor each, so many at a time and so long.
class Listener final : public Watched {
 public:
  struct Setting {
    Rank self;
    int world_size = 1;
    Encryption encryption = Encryption::None;
    Key key;
  };
  class Host {
   public:
    /// `answer` is proven.
    virtual void admitted(Stream stream, const Answer& answer) = 0;

   protected:
    ~Host() = default;
  };
  static constexpr Duration kPatience = std::chrono::seconds(10);
  /// Guests besides two of each rank; the oldest one that has not proven the key leaves for another.
  static constexpr std::size_t kSpareGuests = 128;
  static constexpr int kAcceptsPerLook = 16;
  static constexpr std::uint32_t kLargestFragment = 16 << 20;

  /// Listens at `address`, at a port that the kernel chooses. Throws Error{Transport}.
  Listener(const std::string& address, const Setting& setting, Poller& poller, Host& host);
  Listener(const Listener&) = delete;
  ~Listener();

  std::uint16_t port() const { return port_of(fd_); }
  /// Accepts, listens to guests and shows those out who take too long. True if anything was done.
  bool progress(Instant now);
  /// When progress() must be called at the latest, besides after events.
  std::optional<Instant> next_look() const { return next_look_; }
  bool is_busy() const;
  bool has_guests() const { return !guests_.empty(); }
  /// A connection of this rank, which has proven the key, is about to be admitted.
  bool is_admitting(Rank rank) const;
  std::uint64_t strangers() const { return strangers_; }

  void ready(std::uint32_t events) override;

 private:
  class Guest;
  void accept_some(Instant now);
  void welcome(int fd, Instant now);

  const Setting setting_;
  Poller& poller_;
  Host& host_;
  int fd_;
  bool acceptable_ = false;
  std::optional<Instant> rest_;  // no descriptors were left
  std::optional<Instant> next_look_;
  std::vector<std::unique_ptr<Guest>> guests_;
  std::uint64_t strangers_ = 0;
};

}  // namespace taxon::net::tcp
