#include "job/step_turns.h"

#include <utility>

#include "base/check.h"

namespace taxon::job {

void StepTurns::advance(const model::StepInput& input, model::ReadableWeights until) {
  std::unique_lock<std::mutex> lock(mutex_);
  offered_ = &input;
  state_ = State::Offered;
  ready_ = until;
  changed_.notify_all();
  changed_.wait(lock, [this] { return (owned_ && needs_more()) || left_; });
  if (left_) std::rethrow_exception(left_);
}

model::StepOutput StepTurns::compute(const model::StepInput& input) {
  std::unique_lock<std::mutex> lock(mutex_);
  offered_ = &input;
  state_ = State::Offered;
  ready_ = kBackward;
  changed_.notify_all();
  changed_.wait(lock, [this] { return state_ == State::GivenBack || left_; });
  if (left_) std::rethrow_exception(left_);
  if (failed_) std::rethrow_exception(failed_);
  ready_ = {};
  return output_;
}

void StepTurns::recall() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!owned_) state_ = State::Idle;  // an offer that nobody took
  changed_.wait(lock, [this] { return waits(); });
}

void StepTurns::end(std::exception_ptr error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  state_ = State::Ended;
  ended_ = error;
  changed_.notify_all();
}

const model::StepInput* StepTurns::await() {
  std::unique_lock<std::mutex> lock(mutex_);
  TAXON_CHECK(!owned_, "a step was not given back");
  changed_.wait(lock, [this] { return state_ == State::Offered || state_ == State::Ended; });
  if (ended_) std::rethrow_exception(ended_);
  if (state_ != State::Offered) return nullptr;
  owned_ = *offered_;
  owned_->inputs = {};
  if (!offered_->labels.empty()) {
    const std::span<const std::int64_t> labels = data::whole(offered_->labels);
    labels_.assign(labels.begin(), labels.end());
    owned_->labels = std::span<const std::int64_t>(labels_);
  }
  return current();
}

void StepTurns::need(model::ReadableWeights weights) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (weights <= ready_ || !owned_) return;
  needed_ = weights;
  changed_.notify_all();
  changed_.wait(lock, [this] { return !needs_more() || state_ == State::Ended; });
  needed_ = {};
  if (ended_) std::rethrow_exception(ended_);
}

void StepTurns::give_back(const model::StepOutput& output) {
  const std::lock_guard<std::mutex> lock(mutex_);
  TAXON_CHECK(owned_, "no step to give back");
  owned_.reset();
  output_ = output;
  if (state_ == State::Offered) state_ = State::GivenBack;
  changed_.notify_all();
}

void StepTurns::fail(std::exception_ptr why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failed_) failed_ = std::move(why);
}

void StepTurns::leave(std::exception_ptr why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  left_ = failed_ ? failed_ : std::move(why);
  changed_.notify_all();
}

}  // namespace taxon::job
