#pragma once

#include <deque>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/time.h"
#include "net/tcp/handshake.h"
#include "net/tcp/socket.h"
#include "net/tcp/stream.h"
#include "net/wire/wire.h"

namespace taxon::net::tcp {

/// A header with its payload, or the part of them that has not been sent.
struct Frame {
  WireHeader header;
  ConstView payload;  // the caller's memory
  std::size_t sent = 0;
  std::size_t size() const { return sizeof header + payload.size(); }
};

/// Where a confirmation goes: ahead of frames that have not begun, but behind confirmations, which nothing
/// but their order tells apart.
std::deque<Frame>::const_iterator place_of_urgent(const std::deque<Frame>& frames);

/// One connection from this rank to a peer's listener, which carries frames that way only: no two ranks have
/// to agree who calls whom.
class Outbound final : public Watched {
 public:
  struct Setting {
    Rank self;
    Rank peer;
    std::uint32_t epoch = 0;
    std::uint32_t fragment = 0;
    Encryption encryption = Encryption::None;
    SocketAddress address;
    Key key;
  };
  class Owner {
   public:
    /// All of it was handed over.
    virtual void sent(const Frame& frame) = 0;

   protected:
    ~Owner() = default;
  };
  /// Whoever calls a listener in a crowd of strangers may be turned away with them, and calls again, for so
  /// long after its first call. Time in which this rank did not look, or in which the peer's kernel has
  /// answered and its process not, does not count: control/ knows who is silent.
  static constexpr Duration kPersistence = std::chrono::seconds(30);
  static constexpr Duration kPause = std::chrono::milliseconds(100);
  static constexpr Duration kPatience = std::chrono::seconds(10);  // with the peer's kernel

  Outbound(const Setting& setting, Poller& poller, Owner& owner);
  Outbound(const Outbound&) = delete;
  ~Outbound();

  /// Goes on with calling. When it must be asked again at the latest; nothing: events tell.
  std::optional<Instant> advance(Instant now);
  bool is_open() const { return stage_ == Stage::Open; }
  bool has_failed() const { return stage_ == Stage::Failed; }
  const std::string& problem() const { return problem_; }
  /// What this process may not have more of, where that and not the peer is the problem.
  const std::optional<Error>& lack() const { return lack_; }

  bool is_writable() const { return is_open() && writable_; }
  /// Frames that one call sends.
  bool takes_frames() const { return frames_.size() < kFrames && queued_ < setting_.fragment; }
  void add(const Frame& frame);
  /// A confirmation.
  void add_urgent(const Frame& frame);
  bool has_frames() const { return !frames_.empty() || (stream_ && stream_->holds_bytes()); }
  /// REQUIRES: is_writable(). True if any bytes went.
  bool send();
  /// Nothing is left in this process.
  bool is_drained() const { return !is_open() || (frames_.empty() && !stream_->holds_bytes()); }
  /// Tells the peer that nothing more comes.
  void finish();
  /// Others carry the same messages: no more is taken than can soon be sent, or a connection that is slow
  /// yet would hoard what the others wait for.
  void share_the_work();
  double round_trip() const { return stream_ ? stream_->round_trip() : 0; }

  void ready(std::uint32_t events) override;

 private:
  enum class Stage { Idle, Connecting, Challenge, Verdict, Securing, Open, Failed };
  static constexpr std::size_t kFrames = 16;
  std::optional<Instant> go_on(Instant now);
  void call(Instant now);
  void hang_up();
  /// Of an attempt.
  void retry(Instant now, const std::string& why);
  void fail(const std::string& why);
  void converse(Instant now);
  /// True once all bytes of what is expected next came.
  template <std::size_t N>
  bool received(Instant now);
  template <std::size_t N>
  bool say(Instant now, const std::array<std::byte, N>& bytes);
  void answer(Instant now);
  void conclude(Instant now);
  void secure(Instant now);

  const Setting setting_;
  Poller& poller_;
  Owner& owner_;
  Stage stage_ = Stage::Idle;
  std::optional<Stream> stream_;
  std::optional<Instant> first_call_;
  Instant deadline_{};
  std::optional<Instant> counted_;  // time up to here counts, and what goes by until the next look does not
  std::optional<Instant> pause_;
  std::array<std::byte, 64> heard_{};
  std::size_t heard_size_ = 0;
  Challenge challenge_;
  Answer answer_;
  std::deque<Frame> frames_;
  std::size_t queued_ = 0;  // payload of frames_
  bool readable_ = false, writable_ = false, hung_up_ = false;
  bool shares_ = false;
  std::string problem_;
  std::optional<Error> lack_;
};

}  // namespace taxon::net::tcp
