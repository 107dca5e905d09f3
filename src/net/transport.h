#pragma once

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "base/view.h"
#include "net/tag.h"
#include "task/executor.h"

namespace taxon::net {

class Transport;

/// Permission to touch a peer's memory: a value that can be sent, stored and handed on.
struct RemoteRegion {
  Rank owner;
  std::uint64_t address = 0;  // at the owner
  std::size_t size = 0;
  std::vector<std::byte> key;  // opaque; the transport's own
  std::vector<std::byte> pack() const;
  /// Throws Error{Mismatch} if the bytes are not a packed region.
  static RemoteRegion unpack(ConstView bytes);
};

/// Memory that was born where the transport can reach it: registered, shareable with peers, 64-byte aligned,
/// zeroed. Owned by its transport's allocator through this handle; dies before the transport. Move-only.
class Region {
 public:
  class Impl {
   public:
    virtual ~Impl() = default;
    virtual View bytes() const = 0;
    virtual RemoteRegion share() const = 0;
  };
  Region() = default;
  explicit Region(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
  explicit operator bool() const { return impl_ != nullptr; }
  View bytes() const { return impl_ ? impl_->bytes() : View(); }
  RemoteRegion share() const { return impl_->share(); }

 private:
  std::unique_ptr<Impl> impl_;
};

/// An operation of a transport: an awaiter in the caller's frame, no coroutine of its own. It starts in its
/// constructor, so naming two puts two in flight; each is awaited afterwards and throws its error there. It
/// is done, with or without error, when the network no longer touches its buffer; it must be done before it
/// dies (checked), which cancellation guarantees before any frame unwinds. Not movable: guaranteed elision
/// only.
class Op : public task::Wait {
 public:
  ~Op() override;
  bool await_ready() const { return done_; }
  void await_suspend(std::coroutine_handle<> then) { then_ = then; }
  void await_resume() {
    if (error_) std::rethrow_exception(error_);
  }
  bool done() const { return done_; }
  task::WaitInfo describe() const override;
  /// What it is about, in words.
  std::string subject() const;

  const Rank peer;
  const Tag tag;
  /// For the transport alone: its own state of this operation.
  void* request = nullptr;
  Op* next_in_queue = nullptr;
  /// For the transport alone: the network let go; resumes the waiter. `this` may be gone afterwards.
  void complete(std::exception_ptr error = nullptr);

 protected:
  Op(Transport& transport, Rank peer, Tag tag);
  bool release(std::exception_ptr why) override;
  void resume_released() override;
  /// Last in every operation's constructor: lists `self`, which is this, and starts it; or completes it at
  /// once, unstarted, when the rank's waits are cancelled.
  template <class Self>
  void start(Self& self);
  Transport& transport_;
  Instant since_{};

 private:
  std::coroutine_handle<> then_;
  std::exception_ptr error_;
  bool done_ = false;
};

/// Sends `payload` to a peer. Done when the payload may be overwritten, which may be before it arrived.
class SendOp final : public Op {
 public:
  SendOp(Transport& transport, Rank peer, Tag tag, ConstView payload, DType type);
  const ConstView payload;
  const DType type;
};

/// Receives the message with this tag from this peer. Its length and element type must be exactly those of
/// `payload`, otherwise the ranks disagree: Error{Mismatch} that names both sides.
class RecvOp final : public Op {
 public:
  RecvOp(Transport& transport, Rank peer, Tag tag, View payload, DType type);
  const View payload;
  const DType type;
};

/// A counter that peers raise and the owner awaits; it lives in the owner's transport memory. Values only
/// grow.
struct RemoteSignal {
  Rank owner;
  std::uint32_t index = 0;
};

/// Writes `payload` to `offset` of a peer's region and then raises the peer's signal to `value`: whoever sees
/// the signal sees the bytes. An empty payload only signals. Done when the payload may be overwritten.
class PutOp final : public Op {
 public:
  PutOp(Transport& transport, ConstView payload, const RemoteRegion* region, std::size_t offset,
        RemoteSignal signal, std::uint64_t value);
  const ConstView payload;
  const RemoteRegion* const region;  // null only when payload is empty
  const std::size_t offset;
  const RemoteSignal signal;
  const std::uint64_t value;
};

/// PendingOps until this rank's own signal `index` is at least `value`. `peer` is who should raise it, for
/// hang reports. Afterwards `seen` is what the signal held.
class AwaitSignalOp final : public Op {
 public:
  AwaitSignalOp(Transport& transport, Rank peer, Tag tag, std::uint32_t index, std::uint64_t value);
  const std::uint32_t index;
  const std::uint64_t value;
  /// For the transport: set before the op completes.
  std::uint64_t seen = 0;
};

/// How bytes reach one peer.
struct Path {
  std::string name;  // "shared memory (posix)", "tcp eth0"
  bool shared_memory = false;
  std::size_t fragment = 0;   // messages travel in pieces of so many bytes; 0: whole, or nobody knows
  std::size_t in_flight = 0;  // bytes on their way that fill the path; 0: few, or nobody knows
};

/// Counters since the start, of this rank. What it sends to itself does not leave it, and is not sent.
struct Traffic {
  std::uint64_t messages_sent = 0;
  std::uint64_t bytes_sent = 0;  // payload of messages and puts, and what direct collectives store into peers
  std::uint64_t bytes_received = 0;
  void count_sent(std::size_t bytes) { ++messages_sent, bytes_sent += bytes; }
};

/// The door of bytes: what one rank can do with memory and peers. No groups, no tensors, no collectives.
/// Executor's thread only. Messages between two ranks with one tag arrive in the order in which they were
/// sent. A failure that is not one operation's own (an endpoint broke) cancels the rank's PendingOps with
/// Error{PeerLost or Transport}.
class Transport {
 public:
  virtual ~Transport() = default;

  /// Operations call these from their constructors.
  virtual void start(SendOp& op) = 0;
  virtual void start(RecvOp& op) = 0;
  virtual void start(PutOp& op) = 0;
  virtual void start(AwaitSignalOp& op) = 0;
  /// Raises a peer's signal to `value` at once, as a PutOp without payload does: whoever sees it sees what
  /// this rank stored into map()ped memory before. False: memory is not shared, or the rank's waits are
  /// cancelled; nothing was done, and a PutOp does it or tells why not.
  virtual bool raise_now(RemoteSignal signal, std::uint64_t value);
  /// First half of a cancellation: afterwards the network does not touch the op's buffer and never completes
  /// it.
  virtual void forget(Op& op) = 0;

  /// REQUIRES: size > 0. Throws Error{Transport} with what to do (memlock, /dev/shm) when memory can't be
  /// had.
  virtual Region allocate(std::size_t size) = 0;
  /// The peer's region in this process's address space; empty where no memory is shared. Valid until the
  /// transport dies.
  virtual View map(const RemoteRegion& region) = 0;
  /// The number of signals that this rank owns; all start at 0.
  virtual std::uint32_t signals() const = 0;
  /// What one of them holds now. Who sees a value sees the bytes that were put before.
  virtual std::uint64_t signal(std::uint32_t index) const = 0;
  /// Sets `count` consecutive signals of this rank aside for the caller, for as long as the transport lives;
  /// the first of them. Throws Error{Transport} when they run out.
  std::uint32_t allot_signals(std::uint32_t count);
  /// Of allotted signals, the first, and what their user has counted by them.
  struct Signals {
    std::uint32_t first = 0;
    std::uint64_t counted = 0;
  };
  /// Puts allotted signals by for whoever goes on counting by them: values only grow, and the same peers
  /// raise each of them. And gives them, once; none: none are there under that name.
  using SignalsName = std::pair<std::uint32_t, std::uint64_t>;
  void keep_signals(SignalsName name, Signals signals) { kept_[name] = signals; }
  std::optional<Signals> take_kept_signals(SignalsName name);
  virtual Path path(Rank peer) const = 0;
  virtual const Traffic& traffic() const = 0;
  /// For collectives that write into mapped memory themselves: counts `bytes` as sent.
  virtual void count_stored(std::size_t bytes) = 0;

  virtual Rank rank() const = 0;
  virtual int world_size() const = 0;
  virtual task::Executor& executor() = 0;
  virtual task::PendingOps& pending() = 0;

 private:
  std::uint32_t allotted_ = 0;
  std::map<SignalsName, Signals> kept_;
};

}  // namespace taxon::net
