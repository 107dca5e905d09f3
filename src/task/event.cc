#include "task/event.h"

#include <utility>

namespace taxon::task {

void Event::fire() {
  // Two phases, like a cancellation. A resumed waiter may cancel the rank, which must not find the ones
  // behind it, whose wait is over; and the last one may destroy this event, so its list moves out first.
  Waiter* waiter = std::exchange(first_, nullptr);
  last_ = nullptr;
  for (Waiter* w = waiter; w != nullptr; w = w->next_) {
    w->error_ = error_;
    w->unlist();
  }
  while (waiter != nullptr) {
    Waiter* next = std::exchange(waiter->next_, nullptr);
    waiter->then_.resume();
    waiter = next;
  }
}

void Event::Waiter::await_suspend(std::coroutine_handle<> then) {
  then_ = then;
  list_in(event_.pending_);
  (event_.last_ ? event_.last_->next_ : event_.first_) = this;
  event_.last_ = this;
}

void Event::Waiter::await_resume() {
  if (!error_) error_ = event_.set_ ? event_.error_ : event_.pending_.cancelled();
  if (error_) std::rethrow_exception(error_);
}

bool Event::Waiter::release(std::exception_ptr why) {
  Waiter* before = nullptr;
  for (Waiter* w = event_.first_; w != this; w = w->next_) before = w;
  (before ? before->next_ : event_.first_) = next_;
  if (event_.last_ == this) event_.last_ = before;
  next_ = nullptr;
  error_ = why;
  return true;
}

}  // namespace taxon::task
