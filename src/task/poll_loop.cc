#include "task/poll_loop.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/error.h"

namespace taxon::task {

/// Work from other threads. `pending` lets the loop look without taking the lock; `asleep` spares the system
/// call when the loop is awake. Sleeper: asleep = true, fence, look at pending. Poster: pending = true,
/// fence, look at asleep.
struct PollLoop::Posted {
  std::mutex mutex;
  std::vector<UniqueFunction<void()>> work;  // protected by mutex
  std::atomic<bool> pending{false};
  std::atomic<bool> asleep{false};
  int wake_fd = -1;
};

struct PollLoop::Root {
  struct promise_type {
    Root get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

PollLoop::PollLoop(PollOptions options)
    : options_(options), start_(std::chrono::steady_clock::now()), posted_(std::make_unique<Posted>()) {
  posted_->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (posted_->wake_fd < 0)
    throw Error(ErrorKind::Internal, "eventfd failed: too many open files? Raise ulimit -n.");
}

PollLoop::~PollLoop() { close(posted_->wake_fd); }

void PollLoop::add(Pollable& pollable) { pollables_.push_back(&pollable); }
void PollLoop::remove(Pollable& pollable) { std::erase(pollables_, &pollable); }

Instant PollLoop::now() const {
  return Instant(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - start_));
}

Executor::TimerId PollLoop::resume_at(Instant when, std::coroutine_handle<> who) {
  // A moment that is past counts as now: a coroutine that keeps asking for the past must not overtake the
  // others.
  when = std::max(when, now());
  TimerId id = next_timer_++;
  timers_.emplace(std::pair{when, id}, who);
  timer_times_.emplace(id, when);
  return id;
}

void PollLoop::cancel(TimerId timer) {
  auto found = timer_times_.find(timer);
  TAXON_CHECK(found != timer_times_.end(), "timer ", timer, " has fired");
  timers_.erase({found->second, timer});
  timer_times_.erase(found);
}

void PollLoop::post(UniqueFunction<void()> work) {
  {
    std::lock_guard lock(posted_->mutex);
    posted_->work.push_back(std::move(work));
  }
  posted_->pending.store(true, std::memory_order_seq_cst);
  if (posted_->asleep.load(std::memory_order_seq_cst)) {
    std::uint64_t one = 1;
    [[maybe_unused]] auto written = write(posted_->wake_fd, &one, sizeof one);  // full means awake anyway
  }
}

PollLoop::Root PollLoop::root(Task<void>& main, bool& done, std::exception_ptr& error) {
  try {
    co_await main;
  } catch (...) {
    error = std::current_exception();
  }
  done = true;
}

void PollLoop::drive(Task<void>& main, bool& done, std::exception_ptr& error) { root(main, done, error); }

void PollLoop::run_until(const bool& done) {
  while (!done) {
    if (run_ready())
      idling_ = false;
    else if (!done)
      idle();
  }
}

bool PollLoop::run_ready() {
  bool worked = run_posted();
  worked |= run_timers();
  worked |= poll_all();
  return worked;
}

bool PollLoop::run_posted() {
  if (!posted_->pending.load(std::memory_order_acquire)) return false;
  std::vector<UniqueFunction<void()>> work;
  {
    std::lock_guard lock(posted_->mutex);
    posted_->pending.store(false, std::memory_order_relaxed);
    work.swap(posted_->work);
  }
  for (auto& item : work) item();
  return !work.empty();
}

bool PollLoop::run_timers() {
  bool worked = false;
  // Timers set by what runs here wait for the next turn, so that a yield really yields.
  TimerId limit = next_timer_;
  if (timers_.empty()) return false;
  Instant time = now();
  while (!timers_.empty()) {
    auto first = timers_.begin();
    if (first->first.first > time || first->first.second >= limit) break;
    auto who = first->second;
    timer_times_.erase(first->first.second);
    timers_.erase(first);
    who.resume();
    worked = true;
  }
  return worked;
}

bool PollLoop::poll_all() {
  bool worked = false;
  for (std::size_t i = 0; i < pollables_.size(); ++i) worked |= pollables_[i]->poll();
  return worked;
}

void PollLoop::idle() {
  auto time = std::chrono::steady_clock::now();
  if (!idling_) {
    idling_ = true;
    idle_since_ = time;
  }
  if (time - idle_since_ >= options_.spin && sleep()) return;
  if (options_.when_idle == PollOptions::WhenIdle::YieldCore) sched_yield();
}

bool PollLoop::sleep() {
  posted_->asleep.store(true, std::memory_order_seq_cst);
  bool may_sleep = !posted_->pending.load(std::memory_order_seq_cst);
  std::size_t armed = 0;
  while (may_sleep && armed < pollables_.size()) may_sleep = pollables_[armed++]->arm();
  if (may_sleep) {
    std::vector<pollfd> fds{{posted_->wake_fd, POLLIN, 0}};
    for (Pollable* p : pollables_)
      if (int fd = p->event_fd(); fd >= 0) fds.push_back({fd, POLLIN, 0});
    timespec timeout{}, *limit = nullptr;
    if (!timers_.empty()) {
      auto wait = std::max(Duration(0), timers_.begin()->first.first - now());
      auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(wait).count();
      timeout = {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
      limit = &timeout;
    }
    ppoll(fds.data(), fds.size(), limit, nullptr);
    ++sleeps_;
    std::uint64_t count;
    [[maybe_unused]] auto drained = read(posted_->wake_fd, &count, sizeof count);
    idling_ = false;
  }
  posted_->asleep.store(false, std::memory_order_relaxed);
  for (std::size_t i = 0; i < armed; ++i) pollables_[i]->disarm();
  return may_sleep;
}

}  // namespace taxon::task
