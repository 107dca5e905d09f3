#pragma once

#include <string>

#include "base/check.h"
#include "task/executor.h"

namespace taxon::task {

/// A condition that becomes true once. Any number of coroutines wait for it. An event outlives its waiters.
/// Executor's thread only.
class Event {
 public:
  Event(Executor& executor, PendingOps& pending) : executor_(executor), pending_(pending) {}
  Event(const Event&) = delete;
  ~Event() { TAXON_CHECK(first_ == nullptr, "an event was destroyed with waiters"); }

  bool is_set() const { return set_; }
  /// Resumes the waiters, in the order in which they came, before it returns. The event may be gone
  /// afterwards: callers touch no member of an object that the resumed coroutines can destroy.
  void set() {
    if (set_) return;
    set_ = true;
    fire();
  }
  /// Like set(), but the waiters throw `error`.
  void fail(std::exception_ptr error) {
    error_ = error;
    set();
  }

  class Waiter;
  /// `operation`, `peer` and `subject` describe the wait in hang reports.
  Waiter wait(std::string operation, std::string subject = {}, std::optional<Rank> peer = {});

 private:
  void fire();
  Executor& executor_;
  PendingOps& pending_;
  bool set_ = false;
  std::exception_ptr error_;
  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
};

/// Awaitable; throws the event's or the cancellation's error.
class Event::Waiter final : public Wait {
 public:
  Waiter(Event& event, WaitInfo info) : event_(event), info_(std::move(info)) {}
  WaitInfo describe() const override { return info_; }
  bool await_ready() const { return event_.set_ || event_.pending_.cancelled(); }
  void await_suspend(std::coroutine_handle<> then);
  void await_resume();

 protected:
  bool release(std::exception_ptr why) override;
  void resume_released() override { then_.resume(); }

 private:
  friend class Event;
  Event& event_;
  WaitInfo info_;
  std::coroutine_handle<> then_;
  std::exception_ptr error_;
  Waiter* next_ = nullptr;
};

inline Event::Waiter Event::wait(std::string operation, std::string subject, std::optional<Rank> peer) {
  return Waiter(*this, WaitInfo{std::move(operation), peer, std::move(subject), executor_.now()});
}

}  // namespace taxon::task
