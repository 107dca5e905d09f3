#pragma once

#include <algorithm>
#include <vector>

#include "net/completions.h"
#include "net/wire/signal_page.h"

namespace taxon::net {

/// The waits for signals of one rank's page.
class AwaitedSignals {
 public:
  explicit AwaitedSignals(SignalPage page) : page_(page) {}

  void add(AwaitSignalOp& op) { ops_.push_back(&op); }
  void forget(AwaitSignalOp& op) { std::erase(ops_, &op); }
  bool empty() const { return ops_.empty(); }
  /// True if somebody waits for a signal that this peer should raise.
  bool expects(Rank peer) const {
    return std::any_of(ops_.begin(), ops_.end(), [&](const AwaitSignalOp* op) { return op->peer == peer; });
  }
  bool any_is_up() const {
    return std::any_of(ops_.begin(), ops_.end(),
                       [&](const AwaitSignalOp* op) { return page_.value(op->index) >= op->value; });
  }
  /// Hands those that are up to `completions`. True if there were any.
  bool collect(Completions& completions) {
    std::size_t kept = 0;
    for (AwaitSignalOp* op : ops_)
      if (see(*op))
        completions.push(*op);
      else
        ops_[kept++] = op;
    const bool any = kept < ops_.size();
    ops_.resize(kept);
    return any;
  }
  /// The same without a list for what is complete, where there is one wait, as mostly: it is resumed from
  /// inside this call.
  bool complete_or_collect(Completions& completions) {
    if (ops_.size() != 1) return collect(completions);
    AwaitSignalOp* const op = ops_.front();
    if (!see(*op)) return false;
    ops_.clear();
    op->complete();
    return true;
  }

 private:
  bool see(AwaitSignalOp& op) const {
    op.seen = page_.value(op.index);
    return op.seen >= op.value;
  }
  SignalPage page_;
  std::vector<AwaitSignalOp*> ops_;
};

}  // namespace taxon::net
