#include "sim/thread.h"

namespace taxon::sim {

Duration Thread::from_core(Duration time) const {
  return seat_.cores == 1 ? time : from_picoseconds(static_cast<double>(time.count()) / seat_.cores);
}

void Thread::push(ThreadUser& user) {
  pieces_.push_back(&user);
  if (!working_) work();
}

void Thread::work() {
  working_ = true;  // what is pushed meanwhile waits
  while (!pieces_.empty()) {
    if (auto time = pieces_.front()->go_on()) {
      if (seat_.machine != nullptr)
        seat_.machine->run(*this, seat_.host, seat_.cores, *time);
      else
        queue_.at(queue_.now() + *time, *this);
      return;
    }
    pieces_.pop_front();
  }
  working_ = false;
}

}  // namespace taxon::sim
