#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>

#include "model/model.h"

namespace taxon::job {

/// Steps between the run that asks for them, on its compute stream, and the loop that computes them, on a
/// thread of its owner's. One of each.
class StepTurns {
 public:
  // The run.

  /// Waits until the owner has computed the step; `input` is its own until then. Throws what the owner left
  /// with.
  model::StepOutput ask(const model::StepInput& input);
  /// No step will be asked for any more. `error`: what ended the run, if it failed.
  void end(std::exception_ptr error);

  // The owner.

  /// The step that is asked for next; null: the run is over. Throws what ended it. It is the owner's until
  /// give_back().
  const model::StepInput* await();
  /// The step that await() gave; null: none.
  const model::StepInput* current() const { return current_; }
  void give_back(const model::StepOutput& output);
  /// Takes no more steps: whoever asks gets `why`.
  void leave(std::exception_ptr why);

 private:
  enum class State { Idle, Asked, GivenBack, Ended };
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::Idle;
  const model::StepInput* asked_ = nullptr;
  const model::StepInput* current_ = nullptr;  // the owner's
  model::StepOutput output_;
  std::exception_ptr ended_, left_;
};

}  // namespace taxon::job
