#pragma once

#include <functional>

#include "comm/communicator.h"
#include "comm/failure_monitor.h"
#include "exchange/replay/replay_gate.h"
#include "task/scope.h"
#include "train/sync/step_reduction.h"

namespace taxon::train {

/// What ranks that don't keep step tell each other beside the compute, in place of a step reduction: after
/// every step a worker tells member 0 what it did and hears what all did so far. Nobody waits for a slower
/// worker. Member 0 also says when all shall come together, which workers learn with their next answer.
class ProgressTracker {
 public:
  struct Totals {
    double samples = 0, loss_sum = 0;  // of all workers
    std::array<double, model::kMostCounts> counts{};
    bool stop = false;       // somebody asked
    std::int64_t calls = 0;  // how often all were called together
  };
  /// A worker that is gone for good.
  struct Loss {
    Rank rank;
    std::int64_t steps = 0, samples = 0;  // that it reported
    std::exception_ptr why;
  };
  struct Setup {
    int workers = 1;           // members 0 to `workers` - 1
    std::int64_t samples = 0;  // that were before
    /// At member 0: true if all shall come together at these totals; asked whenever they grow and no call is
    /// open.
    std::function<bool(const Totals&)> calls;
    comm::FailureMonitor* failures = nullptr;  // null: every worker's loss ends the run
    exchange::EventLog log;                    // of member 0: the order of reports
    /// At member 0: hears of each loss once.
    std::function<void(const Loss&)> lost;
    model::CountsAre counts_are = model::CountsAre::Labels;
  };
  ProgressTracker(comm::Communicator& group, Setup setup);

  /// At member 0, before anything else: begins to listen.
  void open();
  /// Says what was done since the last report, and what is known now. Workers only.
  task::Task<void> report(StepReduction::LocalStatus mine, std::int64_t samples, Totals* totals);
  /// Member 0, while all are together: what was called for is done, and the next call may come.
  void came_together() { call_open_ = false; }
  /// For good: workers say farewell, member 0 waits for them.
  task::Task<void> close();
  task::Task<void> abandon(std::exception_ptr why);
  /// At member 0.
  const Totals& totals() const { return totals_; }

 private:
  task::Task<void> serve(int worker);
  task::Task<void> receive(int worker, Loss* so_far);
  task::Task<void> exchange(std::vector<double>* values);
  void add(int worker, std::int64_t number, const std::vector<double>& report);
  /// Whether they can have become these, as far as they are numbers of labels.
  bool grew(std::span<const double> counts, const std::array<double, model::kMostCounts>& from = {}) const;
  bool works() const { return group_.rank() < setup_.workers; }

  comm::Communicator& group_;
  const Setup setup_;
  Totals totals_;
  bool call_open_ = false;
  std::uint32_t use_ = 0;
  exchange::ReplayGate gate_;
  task::Scope listeners_;
};

}  // namespace taxon::train
