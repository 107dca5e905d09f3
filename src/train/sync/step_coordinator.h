#pragma once

#include <memory>
#include <optional>

#include "exchange/extensions.h"
#include "plan/plan.h"
#include "train/sync/agreement.h"
#include "train/sync/progress_tracker.h"
#include "train/sync/step_reduction.h"

namespace taxon::train {

/// Where training stands, as a rank knows it.
struct Position {
  std::int64_t steps = 0, samples = 0;
};

/// What all ranks do together between two steps.
struct SyncActions {
  bool end = false, evaluate = false, save = false;
  bool stop = false;         // end early
  bool interrupted = false;  // with stop: somebody was asked to, or else time is up
  bool any() const { return end || evaluate || save || stop; }
};

/// How often something happens: at every multiple of `period`, 0 for never.
class Every {
 public:
  Every(double period, std::int64_t consumed) : period_(period), done_(due_at(consumed)) {}
  /// True once per period, when `consumed` has passed its end.
  bool due(std::int64_t consumed) {
    std::int64_t now = due_at(consumed);
    return now > done_ && (done_ = now, true);
  }

 private:
  std::int64_t due_at(std::int64_t consumed) const {
    return period_ > 0 ? static_cast<std::int64_t>(static_cast<double>(consumed) / period_ + 1e-9) : 0;
  }
  double period_;
  std::int64_t done_;
};

/// What a plan wants between steps, by how far training is.
class SyncTriggers {
 public:
  /// `epoch` and `total` in samples.
  SyncTriggers(const plan::Plan& plan, double epoch, std::int64_t total, Position begin);
  SyncActions due(Position position);

 private:
  const std::int64_t total_;
  Every evaluation_, checkpoint_, counted_;
};

/// How ranks know of each other's steps, and when they do something together.
class StepCoordinator {
 public:
  virtual ~StepCoordinator() = default;
  /// Collective, first.
  virtual task::Task<void> establish() { co_return; }
  /// False at ranks that never step.
  virtual bool steps() const { return true; }
  /// True if nobody waits for a rank at the points below that told its servers so.
  virtual bool pauses() const { return false; }
  /// Beside the compute of a step: what this rank did since the last call, and what all did.
  virtual task::Task<void> tell(StepReduction::LocalStatus mine, std::int64_t samples,
                                StepReduction::GlobalStatus* global) = 0;
  /// After a step, or instead of one at ranks that never do: what must be done together before the next, as
  /// far as this rank knows. All ranks have something equally often.
  virtual std::optional<SyncActions> due(Position position) = 0;
  /// Collective, at such a point: what all do. `mine` is what due() said; sets what of `position` only all
  /// together know.
  virtual task::Task<SyncActions> agree(SyncActions mine, bool asked_to_stop, Position* position) = 0;
  /// Samples that all did so far, as far as this rank knows; `own` is what its own steps say.
  virtual std::int64_t samples(std::int64_t own) const { return own; }
  /// False where only samples() says when training ends.
  virtual bool counts_own() const { return true; }
  virtual task::Task<void> close();
  virtual task::Task<void> abandon(std::exception_ptr why);
};

/// What a pace is made from; group, agreement and losses outlive it.
struct StepCoordinatorContext {
  comm::Communicator& group;  // of all ranks that ever were
  Agreement& agreement;       // of those that are there
  int workers = 1;            // the first members
  std::int64_t batch = 1;     // samples of a step of all
  SyncTriggers triggers;
  Position begin;
  comm::FailureMonitor* failures = nullptr;
  std::function<void(const ProgressTracker::Loss&)> lost;  // at rank 0
  exchange::Extensions own = {};                           // rows beside those of the tables
  comm::Communicator* node = nullptr;  // those that keep step with this rank, if there are some
  exchange::EventLog log = {};
  StepReduction::Carries carries = StepReduction::Carries::Totals;
  std::size_t counts = 0;  // that the model's task has
  model::CountsAre counts_are = model::CountsAre::Labels;
};

/// The pace that the plan's levels ask for.
std::unique_ptr<StepCoordinator> make_step_coordinator(const plan::Plan& plan,
                                                       const StepCoordinatorContext& context);

}  // namespace taxon::train
