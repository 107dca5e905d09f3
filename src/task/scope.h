#pragma once

#include <coroutine>
#include <exception>
#include <list>

#include "task/task.h"
#include "task/wait.h"

namespace taxon::task {

/// Starts child coroutines and joins them: no coroutine is ever detached. When a child fails, the scope
/// cancels its PendingOps, so that the siblings unwind too; join() then throws the first failure. REQUIRES:
/// join() has completed before destruction whenever something was spawned (checked). Executor's thread only.
class Scope {
 public:
  explicit Scope(PendingOps& pending) : pending_(pending) {}
  Scope(const Scope&) = delete;
  ~Scope() { TAXON_CHECK(live_ == 0, live_, " children were not joined"); }

  /// Runs `child` until it first suspends, then beside the caller.
  void spawn(Task<void> child);
  std::size_t live() const { return live_; }

  class Join;
  /// Awaitable: waits for every child spawned so far or while waiting. One waiter at a time. Children finish
  /// by themselves or because the PendingOps was cancelled, so a join needs no cancellation of its own.
  Join join();

 private:
  struct Runner;
  Runner run(Task<void> child);
  void finished(std::exception_ptr error);

  PendingOps& pending_;
  std::size_t live_ = 0;
  std::exception_ptr error_;
  std::coroutine_handle<> joiner_;
};

class Scope::Join {
 public:
  explicit Join(Scope& scope) : scope_(scope) {}
  bool await_ready() const { return scope_.live_ == 0; }
  void await_suspend(std::coroutine_handle<> then) { scope_.joiner_ = then; }
  void await_resume() {
    if (auto error = std::exchange(scope_.error_, nullptr)) std::rethrow_exception(error);
  }

 private:
  Scope& scope_;
};

inline Scope::Join Scope::join() { return Join(*this); }

}  // namespace taxon::task
