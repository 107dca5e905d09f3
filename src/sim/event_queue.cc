#include "sim/event_queue.h"

#include <utility>

#include "base/check.h"

namespace taxon::sim {
namespace {

/// Stands for a timer's number when an event runs posted work.
constexpr std::uint64_t kPosted = ~std::uint64_t{0};

}  // namespace

task::Executor::TimerId EventQueue::resume_at(Instant when, std::coroutine_handle<> who) {
  std::uint32_t index;
  if (free_timers_.empty()) {
    index = static_cast<std::uint32_t>(timers_.size());
    timers_.emplace_back();
  } else {
    index = free_timers_.back();
    free_timers_.pop_back();
  }
  timers_[index].who = who;
  at(when, *this, index);
  return static_cast<TimerId>(timers_[index].generation) << 32 | index;
}

void EventQueue::cancel(TimerId timer) {
  auto index = static_cast<std::uint32_t>(timer);
  TAXON_CHECK(index < timers_.size() && timers_[index].generation == timer >> 32 && timers_[index].who,
              "timer ", timer, " has fired");
  timers_[index].who = nullptr;  // its event is dropped when it comes up
}

void EventQueue::post(UniqueFunction<void()> work) {
  posted_.push_back(std::move(work));
  at(now_, *this, kPosted);
}

bool EventQueue::is_cancelled(const Event& event) const {
  return event.action == this && event.argument != kPosted && !timers_[event.argument].who;
}

void EventQueue::free_timer(std::uint64_t index) {
  timers_[index].who = nullptr;
  ++timers_[index].generation;
  free_timers_.push_back(static_cast<std::uint32_t>(index));
}

void EventQueue::happen(std::uint64_t timer) {
  if (timer == kPosted) {
    auto work = std::move(posted_.front());
    posted_.pop_front();
    return work();
  }
  auto who = timers_[timer].who;
  free_timer(timer);
  who.resume();
}

void EventQueue::drop_cancelled() {
  while (!heap_.empty() && is_cancelled(heap_.front())) {
    free_timer(heap_.front().argument);
    pop();
  }
}

bool EventQueue::empty() {
  drop_cancelled();
  return heap_.empty();
}

bool EventQueue::step(Instant limit) {
  drop_cancelled();
  if (heap_.empty() || heap_.front().when > limit) return false;
  Event next = heap_.front();
  pop();
  now_ = next.when;
  ++events_;
  note(static_cast<std::uint64_t>(now_.time_since_epoch().count()));
  next.action->happen(next.argument);
  return true;
}

void EventQueue::push(Event event) {
  std::size_t hole = heap_.size();
  heap_.push_back(event);
  while (hole > 0) {
    std::size_t parent = (hole - 1) / 4;
    if (!event.before(heap_[parent])) break;
    heap_[hole] = heap_[parent];
    hole = parent;
  }
  heap_[hole] = event;
}

void EventQueue::pop() {
  Event last = heap_.back();
  heap_.pop_back();
  const std::size_t size = heap_.size();
  if (size == 0) return;
  std::size_t hole = 0;
  for (;;) {
    std::size_t first = 4 * hole + 1;
    if (first >= size) break;
    std::size_t least = first, end = std::min(first + 4, size);
    for (std::size_t child = first + 1; child < end; ++child)
      if (heap_[child].before(heap_[least])) least = child;
    if (!heap_[least].before(last)) break;
    heap_[hole] = heap_[least];
    hole = least;
  }
  heap_[hole] = last;
}

}  // namespace taxon::sim
