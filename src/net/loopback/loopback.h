#pragma once

#include <memory>
#include <vector>

#include "net/completions.h"
#include "net/transport.h"
#include "net/waker.h"

namespace taxon::net {

struct LoopbackOptions {
  /// False: map() is always empty, so that collectives take the paths for ranks on different hosts. Puts
  /// still work.
  bool share_memory = true;
  /// Per rank.
  std::uint32_t signals = 1024;
};

/// N ranks in one process on one executor, for tests, examples and the one-worker run. Messages are copied
/// once when the receive is posted first, twice otherwise; a send or put is done when its constructor
/// returns. Deterministic: what happens is a function of the order of the calls. Phantom payloads are
/// matched and counted without being copied.
///
/// Owns the transports and their PendingOps; both outlive every operation. Executor's thread only; the
/// executor outlives the world.
class LoopbackWorld {
 public:
  LoopbackWorld(task::Executor& executor, int size, LoopbackOptions options = {});
  LoopbackWorld(const LoopbackWorld&) = delete;
  ~LoopbackWorld();

  int size() const { return static_cast<int>(ranks_.size()); }
  Transport& transport(Rank rank);
  task::PendingOps& pending(Rank rank);

 private:
  class RankTransport;
  void complete_later(Op& op, std::exception_ptr error);

  task::Executor& executor_;
  LoopbackOptions options_;
  Completions completions_;
  Waker waker_;
  std::vector<std::unique_ptr<task::PendingOps>> pending_;
  std::vector<std::unique_ptr<RankTransport>> ranks_;
};

}  // namespace taxon::net
