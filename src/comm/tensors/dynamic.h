#pragma once

#include <deque>
#include <memory>

#include "comm/tensors/route.h"

namespace taxon::comm {

/// What the receiver of a dynamic channel does with a tensor that lies in the sender's memory.
enum class TensorRead {
  InPlace,  // uses it there: no copy; the sender's memory is free when the consumer has released it
  Copied    // copies it into its own arena and gives the sender's memory back at once
};

/// Tensors whose shape is known only when they are sent ("dynamic allocation" of arXiv 1805.08430, section
/// 3.3). The sender writes a few words of metadata where the receiver looks; the receiver reads the tensor
/// out of the sender's arena, where it was born, or uses it there, and then releases it. Where no memory is
/// shared the tensor follows as a message into the receiver's arena.
///
/// Opened, used and closed like a static channel (comm/tensors/static.h).
class DynamicSender final : private TensorArena::Lender {
 public:
  /// Coroutine. Throws Error{Mismatch} when the ends disagree. `arena` is where tensors are born that are
  /// sent; it and the group outlive the sender.
  static task::Task<std::unique_ptr<DynamicSender>> open(Communicator& group, TensorArena& arena,
                                                         TensorRoute route, TensorOptions options);
  DynamicSender(Communicator& group, TensorArena& arena, TensorRoute route, TensorOptions options);
  ~DynamicSender() override;

  /// Coroutine: waits for a credit, then tells the receiver where the tensor is. The channel holds `tensor`
  /// until the receiver has released it; until then nobody writes into it (TensorBlock::shared() tells).
  /// Throws Error{Mismatch} unless the block has the bytes of the shape.
  task::Task<void> send(TensorBlock tensor, TensorShape shape);
  /// Coroutine: the same for a tensor that was born elsewhere, which costs one copy into the arena. Done
  /// when it may be overwritten.
  task::Task<void> send_copy(ConstView tensor, TensorShape shape);
  /// Coroutine: waits until everything that was sent is released. Afterwards the end may die.
  task::Task<void> close();

  TensorPath path() const { return end_.path; }
  const TensorCounters& counters() const { return end_.counters; }
  std::string describe() const { return end_.describe(); }
  /// Tensors that the receiver has not released, as far as this end has looked.
  std::size_t outstanding() const { return lent_.size(); }

 private:
  struct Lent {
    std::uint64_t sequence;
    TensorBlock block;
  };
  void reclaim() override;
  bool lends() const override { return !lent_.empty(); }
  task::Task<void> wait_for_release() override;

  TensorEnd end_;
  TensorArena& arena_;
  std::uint32_t released_ = 0;  // own signal
  std::uint32_t arrived_ = 0;   // the receiver's
  RemoteArena there_;           // where the metadata go
  std::uint64_t metadata_ = 0;  // at this offset of its control memory
  std::uint64_t sent_ = 0;
  std::deque<Lent> lent_;
  bool sending_ = false;
};

class DynamicReceiver {
 public:
  /// Coroutine. Metadata, and tensors that are not read in place, go into `arena`, which outlives the
  /// receiver and everything it received. `read` is this end's own choice.
  static task::Task<std::unique_ptr<DynamicReceiver>> open(Communicator& group, TensorArena& arena,
                                                           TensorRoute route, TensorOptions options,
                                                           TensorRead read);
  DynamicReceiver(Communicator& group, TensorArena& arena, TensorRoute route, TensorOptions options);
  ~DynamicReceiver();

  /// Coroutine: the next tensor. Throws Error{Mismatch} for metadata that name a place outside of the
  /// sender's arena, a block that is not the sender's any more or a shape of other bytes; Error{Transport}
  /// when the sender has overrun its credits or the payload is damaged (Integrity::Checked).
  task::Task<ReceivedTensor> receive();
  /// Coroutine: gives the tensor's memory back. In any order. Throws Error{Transport} when the sender gave
  /// the memory up, or with Integrity::Checked wrote into it, while it was read here in place.
  task::Task<void> release(ReceivedTensor tensor);
  /// Coroutine. REQUIRES: everything that is sent was received and released.
  task::Task<void> close();

  TensorPath path() const { return end_.path; }
  const TensorCounters& counters() const { return end_.counters; }
  std::string describe() const { return end_.describe(); }

 private:
  struct Incoming;
  Incoming read_metadata(std::uint64_t sequence) const;
  task::Task<void> copy_out(ReceivedTensor& tensor, const Incoming& incoming);
  task::Task<void> take_message(ReceivedTensor& tensor, const Incoming& incoming);
  task::Task<void> credit(std::uint64_t sequence);
  void check_payload(ConstView bytes, std::uint64_t checksum, std::uint64_t sequence, const char* when) const;

  TensorEnd end_;
  TensorArena& arena_;
  std::uint32_t arrived_ = 0;   // own signal
  std::uint32_t released_ = 0;  // the sender's
  std::size_t metadata_ = 0;    // offset in the arena's control memory
  RemoteArena there_;
  MappedArena mapped_;
  std::uint64_t received_ = 0;
  Credits credits_;
  bool receiving_ = false;
};

}  // namespace taxon::comm
