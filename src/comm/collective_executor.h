#pragma once

#include <vector>

#include "base/view.h"
#include "net/tag.h"
#include "task/task.h"

namespace taxon::comm {

struct Call;
struct CollectiveRow;
class Communicator;

/// Carries out what the members of a group do together. A real run's does it step by step, with messages;
/// the virtual world may do with less (docs/simulation.md). Whoever calls a row or gathers goes through the
/// runtime's executor of collectives without seeing it. Executor's thread only.
class CollectiveExecutor {
 public:
  virtual ~CollectiveExecutor() = default;
  /// What CollectiveRow::run() promises. `row` outlives the task.
  virtual task::Task<void> run(const CollectiveRow& row, Communicator& group, Call call) = 0;
  /// What Communicator::gather() promises.
  virtual task::Task<std::vector<std::byte>> gather(Communicator& group, net::Tag tag, ConstView mine) = 0;
};

/// Every row by its own steps; gathers by a message from everybody to everybody. Has no state.
CollectiveExecutor& step_by_step();

}  // namespace taxon::comm
