#pragma once

#include <memory>

#include "comm/tensors/route.h"

namespace taxon::comm {

/// Tensors of one known shape, written by the sender straight to where the receiver uses them ("static
/// placement" of arXiv 1805.08430, section 3.2). The receiver looks at a word of its own memory; nothing is
/// asked or answered per tensor except the credit that goes back. `depth` places take turns.
///
/// Both ends are opened together; then any number of send() at one end and of receive() and release() at
/// the other, one coroutine at a time each; then close() at both. docs/transport.md argues ordering,
/// visibility and sleep. A lost peer fails whatever waits, as for every operation of a transport.
class StaticSender {
 public:
  /// Coroutine. Throws Error{Mismatch} when the ends disagree. The group outlives the sender.
  static task::Task<std::unique_ptr<StaticSender>> open(Communicator& group, TensorRoute route,
                                                        TensorShape shape, TensorOptions options);
  StaticSender(Communicator& group, TensorRoute route, TensorShape shape, TensorOptions options);

  /// Waits for a credit, then writes. Done when `tensor` may be overwritten. Throws Error{Mismatch} unless it
  /// has the bytes of the shape.
  task::Task<void> send(ConstView tensor);
  /// Coroutine: waits until everything that was sent is released. Afterwards the end may die.
  task::Task<void> close();

  TensorPath path() const { return end_.path; }
  const TensorCounters& counters() const { return end_.counters; }
  std::string describe() const { return end_.describe(); }

 private:
  /// Without a coroutine, if there is a credit and memory is shared; otherwise nothing was done.
  bool send_at_once(ConstView tensor);
  task::Task<void> send_in_turn(ConstView tensor);
  task::Task<void> write_checked(ConstView tensor, std::size_t slot);
  bool has_credit(std::uint64_t sequence) const;
  std::size_t place_of(std::uint64_t sequence) const;  // in the receiver's arena
  void count_sent();

  TensorEnd end_;
  TensorShape shape_;
  std::size_t size_;            // bytes of a tensor
  std::uint32_t released_ = 0;  // own signal: how many the receiver has released
  std::uint32_t arrived_ = 0;   // the receiver's: how many have arrived; the next one: begun
  RemoteArena arena_;
  RemoteBlock slots_;
  View theirs_;  // the arena's payload, where memory is shared
  std::uint64_t sent_ = 0;
  std::uint64_t seen_released_ = 0;  // the last look at the receiver's count, which costs a cache miss
  bool sending_ = false;
};

class StaticReceiver {
 public:
  /// Coroutine. The places are taken from `arena`, which outlives the receiver and everything it received.
  static task::Task<std::unique_ptr<StaticReceiver>> open(Communicator& group, TensorArena& arena,
                                                          TensorRoute route, TensorShape shape,
                                                          TensorOptions options);
  StaticReceiver(Communicator& group, TensorRoute route, TensorShape shape, TensorOptions options);

  /// Coroutine: the next tensor, at the place where it was written. Throws Error{Transport} when the sender
  /// has written over tensors that are not released, or when the payload is damaged (Integrity::Checked).
  task::Task<ReceivedTensor> receive();
  /// The sender may use the place again. In any order. With Integrity::Checked it throws Error{Transport}
  /// when the tensor was written over while it was in use.
  task::Task<void> release(ReceivedTensor tensor);
  /// Coroutine. REQUIRES: everything that is sent was received and released.
  task::Task<void> close();

  TensorPath path() const { return end_.path; }
  const TensorCounters& counters() const { return end_.counters; }
  std::string describe() const { return end_.describe(); }

 private:
  task::Task<void> tell(net::RemoteSignal released, std::uint64_t count);
  std::size_t place_of(std::uint64_t sequence) const;  // in slots_
  void check_arrival(const ReceivedTensor& tensor) const;

  TensorEnd end_;
  TensorShape shape_;
  std::size_t size_;
  TensorBlock slots_;
  std::uint32_t arrived_ = 0;   // own signal; the next one: begun
  std::uint32_t released_ = 0;  // the sender's
  std::uint64_t received_ = 0;
  Credits credits_;
  bool receiving_ = false;
};

}  // namespace taxon::comm
