#include "task/event.h"

namespace taxon::task {

void Event::fire() {
  // The list moves out first: a resumed waiter may destroy this event.
  Waiter* waiter = first_;
  first_ = last_ = nullptr;
  std::exception_ptr error = error_;
  while (waiter != nullptr) {
    Waiter* next = waiter->next_;
    waiter->next_ = nullptr;
    waiter->error_ = error;
    waiter->unlist();
    waiter->then_.resume();
    waiter = next;
  }
}

void Event::Waiter::await_suspend(std::coroutine_handle<> then) {
  then_ = then;
  list_in(event_.waits_);
  (event_.last_ ? event_.last_->next_ : event_.first_) = this;
  event_.last_ = this;
}

void Event::Waiter::await_resume() {
  if (!error_) error_ = event_.set_ ? event_.error_ : event_.waits_.cancelled();
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
