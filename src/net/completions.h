#pragma once

#include <exception>
#include <utility>
#include <vector>

#include "net/transport.h"

namespace taxon::net {

/// Operations that are over, until their coroutines may be resumed: never from inside start(), where another
/// operation is still being constructed.
class Completions {
 public:
  void push(Op& op, std::exception_ptr error = nullptr) { waiting_.push_back({&op, std::move(error)}); }
  bool empty() const { return waiting_.empty(); }
  /// Completes what was pushed before the call; what that pushes waits for the next one, so that a chain of
  /// ready operations does not keep timers waiting. True if there was anything.
  bool run();
  /// For cancellation. False: the op was not here.
  bool forget(Op& op);

 private:
  struct Done {
    Op* op;
    std::exception_ptr error;
  };
  std::vector<Done> waiting_, running_;
};

}  // namespace taxon::net
