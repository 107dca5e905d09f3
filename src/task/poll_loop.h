#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <queue>
#include <vector>

#include "task/executor.h"
#include "task/task.h"

namespace taxon::task {

/// A source of work for the poll loop: a transport that must be progressed.
class Pollable {
 public:
  virtual ~Pollable() = default;
  /// Does what is ready without blocking. True if anything was done.
  virtual bool poll() = 0;
  /// A file descriptor that becomes readable when there is work after arm() said true. -1: none is needed.
  virtual int event_fd() = 0;
  /// Prepares for sleep. False: there is (or may be) work, poll again instead of sleeping. When that finds
  /// nothing, arm() follows again at once.
  virtual bool arm() = 0;
  /// The loop woke up; undoes what arm() announced.
  virtual void disarm() = 0;
};

struct PollOptions {
  /// How long an idle loop polls before it sleeps. 0 when cores are short.
  std::chrono::nanoseconds spin{0};
  /// Give the core away between idle polls, which others on the same core need.
  enum class WhenIdle { Spin, YieldCore } when_idle = WhenIdle::YieldCore;
};

/// The real executor: the loop of one communication thread over the steady clock. It polls, spins a little if
/// it may, and then sleeps on the event descriptors of its pollables until there is work, a timer or a post.
class PollLoop final : public Executor {
 public:
  explicit PollLoop(PollOptions options = {});
  ~PollLoop() override;

  /// Pollables outlive the loop's runs. Executor's thread only.
  void add(Pollable& pollable);
  void remove(Pollable& pollable);

  /// Runs on the calling thread until `main` is done; returns or throws what it did.
  template <class T>
  T run(Task<T> main);

  Instant now() const override;
  TimerId resume_at(Instant when, std::coroutine_handle<> who) override;
  void cancel(TimerId timer) override;
  void post(UniqueFunction<void()> work) override;

  /// The instant 0 of now().
  std::chrono::steady_clock::time_point started() const { return start_; }
  /// CPU seconds are the thread's; this is how often the loop slept, for reports.
  std::uint64_t sleeps() const { return sleeps_; }

 private:
  struct Posted;
  struct Root;
  static Root root(Task<void>& main, bool& done, std::exception_ptr& error);
  static void drive(Task<void>& main, bool& done, std::exception_ptr& error);
  void run_until(const bool& done);
  bool run_ready();
  bool run_posted();
  bool run_timers();
  bool poll_all();
  void idle();
  /// False: there may be work.
  bool sleep();

  PollOptions options_;
  std::chrono::steady_clock::time_point start_;
  std::vector<Pollable*> pollables_;
  std::map<std::pair<Instant, TimerId>, std::coroutine_handle<>> timers_;
  std::map<TimerId, Instant> timer_times_;
  TimerId next_timer_ = 1;
  std::unique_ptr<Posted> posted_;
  std::chrono::steady_clock::time_point idle_since_;
  bool idling_ = false;
  std::uint64_t sleeps_ = 0;
};

template <class T>
T PollLoop::run(Task<T> main) {
  bool done = false;
  std::exception_ptr error;
  if constexpr (std::is_void_v<T>) {
    drive(main, done, error);
    run_until(done);
    if (error) std::rethrow_exception(error);
  } else {
    std::optional<T> result;
    auto capture = [](Task<T>& inner, std::optional<T>& out) -> Task<void> { out = co_await inner; };
    Task<void> outer = capture(main, result);
    drive(outer, done, error);
    run_until(done);
    if (error) std::rethrow_exception(error);
    return std::move(*result);
  }
}

}  // namespace taxon::task
