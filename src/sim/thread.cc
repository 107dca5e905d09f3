#include "sim/thread.h"

#include <cmath>

namespace taxon::sim {

Duration Thread::scaled(Duration time, double factor) {
  return factor == 1 ? time : Duration(std::llround(static_cast<double>(time.count()) * factor));
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
        seat_.machine->run(*this, seat_.host, seat_.full, *time);
      else
        queue_.at(queue_.now() + *time, *this);
      return;
    }
    pieces_.pop_front();
  }
  working_ = false;
}

}  // namespace taxon::sim
