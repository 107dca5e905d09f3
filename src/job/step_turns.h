#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <vector>

#include "model/step_owner.h"

namespace taxon::job {

/// Steps between the run that asks for them, on its compute stream, and the loop that computes them, on a
/// thread of its owner's. One of each.
class StepTurns final : public model::StepOwner {
 public:
  // The run.

  /// Throws what the owner left with.
  void advance(const model::StepInput& input, model::ReadableWeights until) override;
  model::StepOutput compute(const model::StepInput& input) override;
  void recall() override;
  /// No step will be asked for any more. `error`: what ended the run, if it failed.
  void end(std::exception_ptr error);

  // The owner.

  /// The step that comes next, without its inputs; null: the run is over. Throws what ended it. It is the
  /// owner's until give_back(), and outlives a run that fails before.
  const model::StepInput* await();
  /// The step that await() gave; null: none.
  const model::StepInput* current() const { return owned_ ? &*owned_ : nullptr; }
  void need(model::ReadableWeights weights) override;
  void give_back(const model::StepOutput& output);
  /// The owner says that it fails, and may still compute: the run fails with `why` when it has its step back.
  void fail(std::exception_ptr why);
  /// Computes nothing any more, and takes no more steps: whoever asks gets `why`, or why it failed before.
  void leave(std::exception_ptr why);

 private:
  enum class State { Idle, Offered, GivenBack, Ended };
  /// The owner reads no weights: it waits for the run.
  bool waits() const { return !owned_ || needs_more() || left_; }
  bool needs_more() const { return needed_ > ready_; }

  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::Idle;
  const model::StepInput* offered_ = nullptr;
  std::optional<model::StepInput> owned_;  // the owner's
  std::vector<std::int64_t> labels_;       // its
  model::ReadableWeights ready_;           // of the step
  model::ReadableWeights needed_;          // that the owner waits for
  model::StepOutput output_;
  std::exception_ptr ended_, failed_, left_;
};

}  // namespace taxon::job
