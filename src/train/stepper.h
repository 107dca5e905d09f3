#pragma once

#include <memory>
#include <vector>

#include "exchange/divergence.h"
#include "exchange/exchange.h"
#include "model/cost.h"
#include "train/staged_pass.h"
#include "train/state/saving.h"
#include "train/sync/step_reduction.h"

namespace taxon::train {

/// A rank's steps: forward and backward pass on the compute stream, and beside them the exchanges of this
/// step and of those before it, as far as the plan lets them overlap.
class Stepper {
 public:
  /// Everything outlives the stepper. `plan` is resolved.
  struct Setup {
    const plan::Plan* plan = nullptr;
    State* state = nullptr;
    exchange::Levels* levels = nullptr;
    std::int64_t first_step = 0;  // of this process's part of the run
    // Of a model that ranks hold parts of; null and empty otherwise:
    StagedPass* staged = nullptr;
    comm::Communicator* replica = nullptr;
    std::vector<comm::Communicator*> summands = {};  // of exchange::Exchange::Setup
  };
  Stepper(TrainContext world, const Setup& setup);

  struct Done {
    model::StepOutput output;
    double gradient_norm_before = 0;  // of the updates that were over before the backward pass
    Duration busy{0};                 // in kernels
    Duration idle{0};                 // waiting for exchanges and for ranks that are behind
    bool skipped = false;
  };
  /// Forward and backward of `input`, which is worth `samples`; `beside` runs beside them and ends with them.
  /// The exchange goes on when this ends unless the plan says otherwise. Where steps may be skipped `beside`
  /// begins after them, when divergence() is known, and `agreed`, which it fills in, says whether this one
  /// is. Throws Error{Diverged}.
  task::Task<Done> run(const model::StepInput* input, std::int64_t samples, optim::StepClock clock,
                       task::Task<void> beside, const Divergence* agreed);
  /// This rank's, of the step that runs. Stays where it is.
  const Divergence* divergence() const { return &divergence_; }
  /// The step of before a resume whose sums restore() left in the first arena: puts it where it would be.
  void go_on_with(const Delayed& delayed);
  /// Until the exchanges of all steps are over whose updates are due: the weights are then the same on every
  /// rank and stay.
  task::Task<void> settle();
  /// Until all updates are done, those too that a delay would let wait for the next step.
  task::Task<void> drain();
  /// Ends what a failure left in flight.
  task::Task<void> abandon(std::exception_ptr why);

  /// Of the last update; 0 unless clipping asked for it.
  double gradient_norm() const { return gradient_norm_; }
  /// The last step, if its update is still to come.
  Saver::ToCome to_come();
  /// Which of the model's bindings step `step` writes its gradients to.
  std::size_t binding_of(std::int64_t step) const { return index_of(step); }

 private:
  Flight& flight_of(std::int64_t step) { return flights_[index_of(step)]; }
  /// A delayed step of before a resume is the first.
  std::size_t index_of(std::int64_t step) const {
    return static_cast<std::size_t>(step - setup_.first_step + 1) % flights_.size();
  }
  comm::Runtime& runtime() { return world_.runtime; }
  Instant now() { return world_.runtime.executor().now(); }

  task::Task<void> turn(const model::StepInput* input, std::int64_t samples, optim::StepClock clock,
                        Done* done);
  void begin_exchange(const model::StepInput& input, std::int64_t samples, optim::StepClock clock);
  task::Task<void> learn_divergence(optim::StepClock clock, double loss_sum);
  task::Task<void> require_finite_weights(optim::StepClock clock);
  /// How far a forward pass has come: segments, and of the next one the share.
  task::Task<double> advance(const model::StepInput* input);
  task::Task<double> advance_by_rows(const model::StepInput* input, int segment);
  task::Task<void> go_forward(const model::StepInput* input, double from, double until,
                              UniqueFunction<void()> body);
  task::Task<model::StepOutput> pass(const model::StepInput* input, double begun);
  task::Task<model::StepOutput> pass_in_stages(const model::StepInput* input, std::int64_t samples,
                                               optim::StepClock clock, Done* done);
  task::Task<model::StepOutput> pass_in_pieces(const model::StepInput* input, double begun);
  task::Task<model::StepOutput> run_backward(const model::StepInput* input, int from, model::StepCost cost);
  void allow_update(Flight& flight);
  task::Task<void> wait_for(task::Task<void> exchange);
  void computed(const char* what, Instant begin);

  TrainContext world_;
  const Setup setup_;
  std::vector<Flight> flights_;  // one more than the delay
  std::int64_t next_ = 0;        // the step after the last that began
  double gradient_norm_ = 0;
  Divergence divergence_;
  const plan::OnDivergence on_divergence_;
  Duration busy_{0}, idle_{0};  // since the last run() began
};

}  // namespace taxon::train
