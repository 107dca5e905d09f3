#include "task/scope.h"

namespace taxon::task {

/// A fire-and-forget frame that owns its child; it frees itself, and the scope counts it until then.
struct Scope::Runner {
  struct promise_type {
    Runner get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

void Scope::spawn(Task<void> child) {
  ++live_;
  run(std::move(child));
}

Scope::Runner Scope::run(Task<void> child) {
  std::exception_ptr error;
  {
    Task<void> owned = std::move(child);  // dies before the scope hears of the end
    try {
      co_await owned;
    } catch (...) {
      error = std::current_exception();
    }
  }
  finished(error);
}

void Scope::finished(std::exception_ptr error) {
  if (error) {
    if (!error_) error_ = error;
    pending_.cancel(error);  // the siblings unwind; live_ still counts this child, so the join can't overtake
  }
  if (--live_ == 0 && joiner_) std::exchange(joiner_, nullptr).resume();
}

}  // namespace taxon::task
