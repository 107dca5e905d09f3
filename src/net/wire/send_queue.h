#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "net/completions.h"
#include "net/transport.h"
#include "net/wire/header_of.h"

namespace taxon::net {

/// SendOps and PutOps to one peer, in order, and how far the first one is. Owns none of them.
class SendQueue {
 public:
  explicit SendQueue(Completions& completions) : completions_(completions) {}

  bool empty() const { return first_ == nullptr; }
  /// A part of an operation went out and the rest never will: the peer can't make sense of anything later.
  bool cut() const { return cut_; }

  /// Queues `op`, and where nothing is before it calls pump(), which may send all of it. True: it did, and
  /// `op` is done; it is not completed here.
  template <class Pump>
  bool start(Op& op, Pump&& pump) {
    op.next_in_queue = nullptr;
    (last_ ? last_->next_in_queue : first_) = &op;
    last_ = &op;
    if (first_ != &op) return false;
    starting_ = &op;
    pump();
    return std::exchange(starting_, nullptr) == nullptr;
  }

  // Of the first one. REQUIRES: !empty().

  const Op& first() const { return *first_; }
  /// What comes next of it, at most so many bytes.
  ConstView next(std::size_t most) const {
    const ConstView payload = payload_of(*first_);
    return payload.slice(sent_, std::min(most, payload.size() - sent_));
  }
  /// Bytes of it that went out.
  std::size_t sent() const { return sent_; }
  void advance(std::size_t bytes) { sent_ += bytes; }
  bool is_whole() const { return sent_ >= payload_of(*first_).size(); }
  /// It is done; the next one is the first.
  void pop() {
    Op& op = *first_;
    first_ = op.next_in_queue;
    if (first_ == nullptr) last_ = nullptr;
    sent_ = 0;
    ++order_;
    if (starting_ == &op)
      starting_ = nullptr;
    else
      completions_.push(op);
  }
  /// Operations that went out before it.
  std::uint64_t order() const { return order_; }

  /// False: `op` is not queued here.
  bool forget(Op& op) {
    Op* before = nullptr;
    for (Op* other = first_; other != nullptr; before = other, other = other->next_in_queue) {
      if (other != &op) continue;
      if (before == nullptr && std::exchange(sent_, 0) > 0) cut_ = true;
      (before ? before->next_in_queue : first_) = op.next_in_queue;
      if (last_ == &op) last_ = before;
      return true;
    }
    return false;
  }

 private:
  Completions& completions_;
  Op* first_ = nullptr;
  Op* last_ = nullptr;
  Op* starting_ = nullptr;  // inside start(); null again once it is done
  std::size_t sent_ = 0;    // bytes of first_
  std::uint64_t order_ = 0;
  bool cut_ = false;
};

}  // namespace taxon::net
