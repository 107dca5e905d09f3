#include "job/step_turns.h"

#include <utility>

#include "base/check.h"

namespace taxon::job {

model::StepOutput StepTurns::ask(const model::StepInput& input) {
  std::unique_lock<std::mutex> lock(mutex_);
  asked_ = &input;
  state_ = State::Asked;
  changed_.notify_all();
  changed_.wait(lock, [this] { return state_ == State::GivenBack || left_; });
  if (left_) std::rethrow_exception(left_);
  return output_;
}

void StepTurns::end(std::exception_ptr error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  state_ = State::Ended;
  ended_ = error;
  changed_.notify_all();
}

const model::StepInput* StepTurns::await() {
  std::unique_lock<std::mutex> lock(mutex_);
  TAXON_CHECK(current_ == nullptr, "a step was not given back");
  changed_.wait(lock, [this] { return state_ == State::Asked || state_ == State::Ended; });
  if (ended_) std::rethrow_exception(ended_);
  if (state_ == State::Asked) current_ = asked_;
  return current_;
}

void StepTurns::give_back(const model::StepOutput& output) {
  const std::lock_guard<std::mutex> lock(mutex_);
  TAXON_CHECK(current_ != nullptr, "no step to give back");
  current_ = nullptr;
  output_ = output;
  if (state_ == State::Asked) state_ = State::GivenBack;
  changed_.notify_all();
}

void StepTurns::leave(std::exception_ptr why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  left_ = std::move(why);
  changed_.notify_all();
}

}  // namespace taxon::job
