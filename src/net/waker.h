#pragma once

#include <coroutine>
#include <exception>
#include <optional>

#include "base/unique_function.h"
#include "task/executor.h"

namespace taxon::net {

/// Has the executor run `work` at a given time without allocating: a transport's own deferred work. The work
/// must not destroy the waker. Executor's thread only.
class Waker {
 public:
  Waker(task::Executor& executor, UniqueFunction<void()> work)
      : executor_(executor), work_(std::move(work)), routine_(loop().handle) {}
  Waker(const Waker&) = delete;
  ~Waker() {
    if (due_) executor_.cancel(timer_);
    routine_.destroy();
  }

  /// Runs the work once, at `when` at the latest; never from inside this call.
  void wake(Instant when) {
    if (due_ && *due_ <= when) return;
    if (due_) executor_.cancel(timer_);
    due_ = when;
    timer_ = executor_.resume_at(when, routine_);
  }

 private:
  struct Routine {
    struct promise_type {
      Routine get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
      std::suspend_always initial_suspend() noexcept { return {}; }
      std::suspend_always final_suspend() noexcept { return {}; }
      void return_void() noexcept {}
      void unhandled_exception() noexcept { std::terminate(); }
    };
    std::coroutine_handle<> handle;
  };
  Routine loop() {
    for (;;) {
      due_.reset();
      work_();
      co_await std::suspend_always{};
    }
  }

  task::Executor& executor_;
  UniqueFunction<void()> work_;
  std::coroutine_handle<> routine_;
  std::optional<Instant> due_;
  task::Executor::TimerId timer_ = 0;
};

}  // namespace taxon::net
