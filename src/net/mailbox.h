#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "net/transport.h"

namespace taxon::net {

/// Hash of what a message is matched by.
std::uint64_t hash_match(Rank source, const Tag& tag);

/// Where receives and messages meet: for each (source, tag) a queue of posted receives or a queue of messages
/// that came before theirs, never both. Owns neither. Memory is allocated only when more keys are open at
/// once than ever before. `Message` has members `Rank source; Tag tag; Message* next`.
template <class Message>
class Mailbox {
 public:
  Mailbox() : slots_(64) {}
  Mailbox(const Mailbox&) = delete;

  /// Queues a receive that found no message.
  void post(RecvOp& op) {
    Slot& slot = open(op.peer, op.tag);
    op.next_in_queue = nullptr;
    (slot.receives.last ? slot.receives.last->next_in_queue : slot.receives.first) = &op;
    slot.receives.last = &op;
  }
  /// Queues a message that found no receive.
  void keep(Message& message) {
    Slot& slot = open(message.source, message.tag);
    message.next = nullptr;
    (slot.messages.last ? slot.messages.last->next : slot.messages.first) = &message;
    slot.messages.last = &message;
  }
  /// Takes the oldest receive posted for this key; null if there is none.
  RecvOp* take_receive(Rank source, const Tag& tag) {
    std::size_t at = find(source, tag);
    Op* op = slots_[at].receives.first;
    if (op == nullptr) return nullptr;
    slots_[at].receives.first = op->next_in_queue;
    if (slots_[at].receives.first == nullptr) close(at);
    return static_cast<RecvOp*>(op);
  }
  /// Takes the oldest message kept for this key; null if there is none.
  Message* take_message(Rank source, const Tag& tag) {
    std::size_t at = find(source, tag);
    Message* message = slots_[at].messages.first;
    if (message == nullptr) return nullptr;
    slots_[at].messages.first = message->next;
    if (slots_[at].messages.first == nullptr) close(at);
    return message;
  }
  /// Takes a posted receive out of its queue. False: it was not queued.
  bool forget(RecvOp& op) {
    std::size_t at = find(op.peer, op.tag);
    Op* before = nullptr;
    for (Op* other = slots_[at].receives.first; other != nullptr; other = other->next_in_queue) {
      if (other != &op) {
        before = other;
        continue;
      }
      Queue<Op>& queue = slots_[at].receives;
      (before ? before->next_in_queue : queue.first) = op.next_in_queue;
      if (queue.last == &op) queue.last = before;
      if (queue.first == nullptr) close(at);
      return true;
    }
    return false;
  }
  /// Takes any kept message; null when none is left.
  Message* take_any() {
    for (std::size_t at = 0; at < slots_.size(); ++at)
      if (slots_[at].used && slots_[at].messages.first != nullptr)
        return take_message(slots_[at].source, slots_[at].tag);
    return nullptr;
  }
  /// True if a receive from this source is posted.
  bool receives_from(Rank source) const {
    for (const Slot& slot : slots_)
      if (slot.used && slot.source == source && slot.receives.first != nullptr) return true;
    return false;
  }
  /// Keys with something queued.
  std::size_t size() const { return used_; }

 private:
  template <class T>
  struct Queue {
    T* first = nullptr;
    T* last = nullptr;
  };
  struct Slot {
    Rank source;
    Tag tag;
    bool used = false;
    Queue<Op> receives;
    Queue<Message> messages;
  };

  std::size_t home(const Slot& slot) const { return hash_match(slot.source, slot.tag) & (slots_.size() - 1); }
  /// The slot of this key, or the free one where it belongs.
  std::size_t find(Rank source, const Tag& tag) const {
    std::size_t mask = slots_.size() - 1;
    std::size_t at = hash_match(source, tag) & mask;
    while (slots_[at].used && !(slots_[at].source == source && slots_[at].tag == tag)) at = (at + 1) & mask;
    return at;
  }
  Slot& open(Rank source, const Tag& tag) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[find(source, tag)];
    if (!slot.used) {
      slot = Slot{source, tag, true, {}, {}};
      ++used_;
    }
    return slot;
  }
  /// Frees a slot and moves up those that were pushed behind it, so that searches may stop at a free one.
  void close(std::size_t hole) {
    std::size_t mask = slots_.size() - 1;
    for (std::size_t at = (hole + 1) & mask; slots_[at].used; at = (at + 1) & mask) {
      if (((at - home(slots_[at])) & mask) < ((at - hole) & mask)) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole] = Slot{};
    --used_;
  }
  void grow() {
    std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
    for (Slot& slot : old)
      if (slot.used) slots_[find(slot.source, slot.tag)] = slot;
  }

  std::vector<Slot> slots_;  // open addressing; the size is a power of two, at most half is used
  std::size_t used_ = 0;
};

}  // namespace taxon::net
