#pragma once

#include <optional>
#include <vector>

#include "net/transport.h"
#include "task/task.h"

namespace taxon::comm {

/// A window of numbered operations: number i takes the place of number i - size(), which must be done.
template <class Op>
class InFlight {
 public:
  explicit InFlight(std::size_t size) : slots_(size) {}
  std::size_t size() const { return slots_.size(); }
  /// The operation in the place of number `i`, to be awaited before the place is used again; null if there
  /// was none.
  Op* at(std::size_t i) {
    auto& slot = slots_[i % slots_.size()];
    return slot ? &*slot : nullptr;
  }
  template <class... Args>
  void start(std::size_t i, Args&&... args) {
    slots_[i % slots_.size()].emplace(std::forward<Args>(args)...);
  }

 private:
  std::vector<std::optional<Op>> slots_;
};

/// Runs the coroutine of a collective that has several operations in flight, which the caller owns and which
/// outlive it. When one fails, the rank's PendingOps are cancelled before the error goes on, so that the
/// network lets go of the others before the caller's frame dies.
task::Task<void> settle(task::PendingOps& pending, task::Task<void> body);

}  // namespace taxon::comm
