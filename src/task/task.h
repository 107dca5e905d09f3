#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/check.h"

namespace taxon::task {

template <class T>
class Task;

namespace detail {

/// Children are resumed inline by their awaiter and, when they complete at once, do not resume it back: GCC
/// 12 turns symmetric transfer into a tail call only in optimised builds without sanitizers, so a loop over
/// ready tasks would overflow the stack.
class PromiseBase {
 public:
  std::suspend_always initial_suspend() noexcept { return {}; }
  void unhandled_exception() noexcept { error_ = std::current_exception(); }

  struct FinalAwaiter {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> self) noexcept {
      PromiseBase& promise = self.promise();
      if (!promise.starting_ && promise.then_) promise.then_.resume();  // the frame may be gone after this
    }
    void await_resume() noexcept {}
  };
  FinalAwaiter final_suspend() noexcept { return {}; }

 protected:
  void rethrow() {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  template <class T>
  friend class task::Task;
  std::coroutine_handle<> then_;
  std::exception_ptr error_;
  bool starting_ = false;
};

template <class T>
class Promise : public PromiseBase {
 public:
  Task<T> get_return_object();
  template <class U>
  void return_value(U&& value) {
    value_.emplace(std::forward<U>(value));
  }
  T take() {
    rethrow();
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
};

template <>
class Promise<void> : public PromiseBase {
 public:
  Task<void> get_return_object();
  void return_void() noexcept {}
  void take() { rethrow(); }
};

}  // namespace detail

/// A coroutine that starts when it is awaited, on the awaiter's thread, and is awaited once. Exceptions
/// travel to the awaiter. The frame dies with the Task, which must not happen while it is suspended
/// (checked). GCC 12: `co_await f(x);` takes names, scalars and calls as arguments; what braces, lambdas or
/// `?:` build is named in a statement before, as CONTRIBUTING.md says.
template <class T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::Promise<T>;

  Task() = default;
  explicit Task(std::coroutine_handle<promise_type> frame) : frame_(frame) {}
  /// Of a function that had nothing to wait for: awaiting it costs nothing.
  static Task nothing_left() requires std::is_void_v<T> {
    Task task;
    task.done_ = true;
    return task;
  }
  Task(Task&& other) noexcept
      : frame_(std::exchange(other.frame_, nullptr)), started_(other.started_), done_(other.done_) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(frame_, other.frame_);
    std::swap(started_, other.started_);
    std::swap(done_, other.done_);
    return *this;
  }
  ~Task() {
    if (!frame_) return;
    TAXON_CHECK(!started_ || frame_.done(), "a task was destroyed while it was suspended");
    frame_.destroy();
  }

  bool done() const { return done_ || (frame_ && frame_.done()); }

  bool await_ready() const { return done_; }
  bool await_suspend(std::coroutine_handle<> then) {
    TAXON_CHECK(frame_ && !started_, "a task is awaited once");
    started_ = true;
    auto& promise = frame_.promise();
    promise.then_ = then;
    promise.starting_ = true;
    frame_.resume();
    promise.starting_ = false;
    return !frame_.done();
  }
  T await_resume() {
    if constexpr (std::is_void_v<T>)
      if (done_) return;
    return frame_.promise().take();
  }

 private:
  std::coroutine_handle<promise_type> frame_;
  bool started_ = false;
  bool done_ = false;  // without a frame
};

namespace detail {
template <class T>
Task<T> Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}
}  // namespace detail

}  // namespace taxon::task
