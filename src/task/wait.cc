#include "task/wait.h"

#include "base/check.h"

namespace taxon::task {

void Wait::list_in(PendingOps& pending) {
  TAXON_CHECK(pending_ == nullptr, "a wait is listed once");
  pending_ = &pending;
  previous_ = pending.last_;
  (pending.last_ ? pending.last_->next_ : pending.first_) = this;
  pending.last_ = this;
  ++pending.size_;
}

void Wait::unlist() {
  if (pending_ == nullptr) return;
  (previous_ ? previous_->next_ : pending_->first_) = next_;
  (next_ ? next_->previous_ : pending_->last_) = previous_;
  --pending_->size_;
  pending_ = nullptr;
  previous_ = next_ = nullptr;
}

PendingOps::~PendingOps() { TAXON_CHECK(size_ == 0, size_, " operations are still waited for"); }

void PendingOps::cancel(std::exception_ptr why) {
  if (why_) return;
  why_ = why;
  // Released waits move to a list of their own: resuming one frame may destroy, and so unlist, the waits of
  // others.
  PendingOps released;
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

std::vector<WaitInfo> PendingOps::snapshot() const {
  std::vector<WaitInfo> all;
  for (const Wait* wait = first_; wait != nullptr; wait = wait->next_) all.push_back(wait->describe());
  return all;
}

}  // namespace taxon::task
