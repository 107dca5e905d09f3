#include "task/wait.h"

#include "base/check.h"

namespace taxon::task {

void Wait::list_in(Waits& waits) {
  TAXON_CHECK(waits_ == nullptr, "a wait is listed once");
  waits_ = &waits;
  previous_ = waits.last_;
  (waits.last_ ? waits.last_->next_ : waits.first_) = this;
  waits.last_ = this;
  ++waits.size_;
}

void Wait::unlist() {
  if (waits_ == nullptr) return;
  (previous_ ? previous_->next_ : waits_->first_) = next_;
  (next_ ? next_->previous_ : waits_->last_) = previous_;
  --waits_->size_;
  waits_ = nullptr;
  previous_ = next_ = nullptr;
}

Waits::~Waits() { TAXON_CHECK(size_ == 0, size_, " operations are still waited for"); }

void Waits::cancel(std::exception_ptr why) {
  if (why_) return;
  why_ = why;
  // Released waits move to a list of their own: resuming one frame may destroy, and so unlist, the waits of
  // others.
  Waits released;
  for (Wait* wait = first_; wait != nullptr;) {
    Wait* next = wait->next_;
    if (wait->release(why)) {
      wait->unlist();
      wait->list_in(released);
    }
    wait = next;
  }
  while (released.first_ != nullptr) {
    Wait* wait = released.first_;
    wait->unlist();
    wait->resume_released();
  }
}

std::vector<WaitInfo> Waits::snapshot() const {
  std::vector<WaitInfo> all;
  for (const Wait* wait = first_; wait != nullptr; wait = wait->next_) all.push_back(wait->describe());
  return all;
}

}  // namespace taxon::task
