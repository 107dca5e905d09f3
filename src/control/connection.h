#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "control/poller.h"
#include "control/wire.h"

namespace taxon::control {

/// One stream socket with buffers on both sides. Tells its owner what arrived and that it closed; the owner
/// may destroy it from inside both calls.
class Connection {
 public:
  class Owner {
   public:
    /// Bytes came; take() or next() has them.
    virtual void received(Connection& connection) = 0;
    /// The other side closed, or the kernel gave up; nothing more will come. All bytes were handed out
    /// before.
    virtual void closed(Connection& connection, const std::string& reason) = 0;

   protected:
    ~Owner() = default;
  };

  Connection(Poller& poller, Fd fd, Owner& owner);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void set_owner(Owner& owner) { owner_ = &owner; }
  int fd() const { return fd_.get(); }

  /// Sends now what fits and the rest when the socket takes it. Failures show as closed().
  void send(std::span<const std::byte> bytes);
  void send(const Packet& packet);
  void send(const Message& message) { send(encode(message)); }
  /// Bytes still in this process.
  bool has_unsent() const { return !out_.empty(); }

  /// Exactly N bytes off the front, or nothing yet.
  template <std::size_t N>
  std::optional<std::array<std::byte, N>> take();
  /// The next message, or nothing yet. Throws ProtocolError.
  std::optional<Message> next();

  /// What was read and not taken may hold so many bytes; more stays in the kernel.
  void limit_input(std::size_t bytes) { input_limit_ = bytes; }
  /// What the next messages may hold.
  void limit_frames(const FrameLimits& limits) {
    frame_limits_ = limits;
    input_limit_ = limits.bytes();
  }

 private:
  enum class Stream : std::uint8_t { Open, Ended };
  void handle(std::uint32_t events);
  Stream read_some(std::string& reason);
  void flush();
  void watch_output();
  std::span<const std::byte> input() const { return std::span(in_).subspan(in_begin_); }
  void consume(std::size_t bytes);

  Poller& poller_;
  Fd fd_;
  Owner* owner_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::vector<std::byte> in_;
  std::size_t in_begin_ = 0;
  FrameLimits frame_limits_;
  std::size_t input_limit_ = frame_limits_.bytes();
  std::deque<Packet> out_;
  std::size_t out_begin_ = 0;
  bool wants_output_ = false;
  bool broken_ = false;
};

template <std::size_t N>
std::optional<std::array<std::byte, N>> Connection::take() {
  auto available = input();
  if (available.size() < N) return {};
  std::array<std::byte, N> taken;
  std::copy_n(available.begin(), N, taken.begin());
  consume(N);
  return taken;
}

}  // namespace taxon::control
