#pragma once

#include <coroutine>
#include <cstdint>
#include <string>

#include "base/time.h"
#include "base/unique_function.h"
#include "task/wait.h"

namespace taxon::task {

/// The door of time. One thread runs everything that an executor resumes; only post() may be called from
/// others.
class Executor {
 public:
  using TimerId = std::uint64_t;
  virtual ~Executor() = default;

  virtual Instant now() const = 0;
  /// Resumes `who` at `when` (at once if that is past, but never from inside this call). Ties resume in call
  /// order.
  virtual TimerId resume_at(Instant when, std::coroutine_handle<> who) = 0;
  /// Forgets a timer that has not fired. REQUIRES: not fired yet.
  virtual void cancel(TimerId timer) = 0;
  /// Runs `work` on the executor's thread, in the order of the calls. Any thread; wakes a sleeping executor.
  virtual void post(UniqueFunction<void()> work) = 0;
};

/// Awaitable: suspends until `when`. `what` names it in hang reports, which count from `since` where it is
/// one of many looks; nothing: from now on. Throws the cancellation's error.
class SleepUntil final : public Wait {
 public:
  SleepUntil(Executor& executor, PendingOps& pending, Instant when, std::string what = "sleep",
             std::optional<Instant> since = {})
      : executor_(executor),
        pending_(pending),
        when_(when),
        what_(std::move(what)),
        since_(since.value_or(executor.now())) {}
  WaitInfo describe() const override { return {what_, {}, {}, since_}; }

  bool await_ready() const { return pending_.cancelled() != nullptr; }
  void await_suspend(std::coroutine_handle<> then) {
    then_ = then;
    list_in(pending_);
    timer_ = executor_.resume_at(when_, then);
  }
  void await_resume() {
    unlist();
    if (error_ || (error_ = pending_.cancelled())) std::rethrow_exception(error_);
  }

 protected:
  bool release(std::exception_ptr why) override {
    executor_.cancel(timer_);
    error_ = why;
    return true;
  }
  void resume_released() override { then_.resume(); }

 private:
  Executor& executor_;
  PendingOps& pending_;
  Instant when_;
  std::string what_;
  Instant since_;
  Executor::TimerId timer_ = 0;
  std::coroutine_handle<> then_;
  std::exception_ptr error_;
};

/// Awaitable: lets everything else that is ready run first.
class Yield {
 public:
  explicit Yield(Executor& executor) : executor_(executor) {}
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> then) { executor_.resume_at(executor_.now(), then); }
  void await_resume() {}

 private:
  Executor& executor_;
};

}  // namespace taxon::task
