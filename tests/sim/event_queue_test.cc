#include "sim/event_queue.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "task/scope.h"

namespace taxon::sim {
namespace {

using std::chrono::microseconds;
using task::Task;

struct Recorder final : Action {
  explicit Recorder(EventQueue& queue) : queue(queue) {}
  void happen(std::uint64_t argument) override { seen.push_back({queue.now() - Instant(), argument}); }
  EventQueue& queue;
  std::vector<std::pair<Duration, std::uint64_t>> seen;
};

TEST(EventQueue, RunsInTheOrderOfTimeAndThenOfCalls) {
  EventQueue queue;
  Recorder recorder(queue);
  // Enough to make every shape of the heap, with many ties.
  std::uint64_t x = 1;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    x = x * 6364136223846793005ULL + 1442695040888963407ULL;
    queue.at(Instant(Duration(static_cast<std::int64_t>(x >> 40) % 97)), recorder, i);
    if (i % 3 == 0) queue.step();
  }
  while (queue.step()) continue;
  ASSERT_EQ(recorder.seen.size(), 5000u);
  for (std::size_t i = 1; i < recorder.seen.size(); ++i) {
    auto [before, first] = recorder.seen[i - 1];
    auto [now, second] = recorder.seen[i];
    EXPECT_TRUE(before < now || (before == now && first < second)) << i;
  }
}

TEST(EventQueue, WhatIsPastCountsAsNow) {
  EventQueue queue;
  Recorder recorder(queue);
  queue.at(Instant(Duration(100)), recorder, 1);
  queue.step();
  queue.at(Instant(Duration(50)), recorder, 2);
  queue.step();
  EXPECT_EQ(recorder.seen.back().first, Duration(100));
}

TEST(EventQueue, WhatIsLaterThanTimeIsDueAtItsEnd) {
  EventQueue queue;
  Recorder recorder(queue);
  queue.at(Instant::max(), recorder, 1);
  queue.at(Instant(kLongest), recorder, 2);
  EXPECT_FALSE(queue.step(EventQueue::kEnd - Duration(1)));
  while (queue.step()) continue;
  EXPECT_EQ(recorder.seen, (std::vector<std::pair<Duration, std::uint64_t>>{{kLongest, 1}, {kLongest, 2}}));
}

TEST(EventQueue, StopsAtTheLimit) {
  EventQueue queue;
  Recorder recorder(queue);
  queue.at(Instant(Duration(100)), recorder);
  EXPECT_FALSE(queue.step(Instant(Duration(99))));
  EXPECT_EQ(queue.now(), Instant());
  EXPECT_TRUE(queue.step(Instant(Duration(100))));
  EXPECT_TRUE(queue.empty());
}

struct Root {
  struct promise_type {
    Root get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

Root sleep(EventQueue& queue, task::PendingOps& waits, Duration time, std::string& log, char name) {
  bool cancelled = false;
  try {
    task::SleepUntil nap(queue, waits, queue.now() + time);
    co_await nap;
  } catch (const Error&) {
    cancelled = true;
  }
  log += cancelled ? 'x' : name;
}

TEST(EventQueue, CancelledTimersNeitherFireNorTakeTime) {
  EventQueue queue;
  task::PendingOps waits, others;
  std::string log;
  sleep(queue, waits, microseconds(5), log, 'a');
  sleep(queue, others, microseconds(9000), log, 'b');
  sleep(queue, waits, microseconds(3), log, 'c');
  others.cancel(std::make_exception_ptr(Error(ErrorKind::Interrupted, "over")));
  EXPECT_EQ(log, "x");
  while (queue.step()) continue;
  EXPECT_EQ(log, "xca");
  EXPECT_EQ(queue.now(), Instant(microseconds(5)));
  // The places of fired and cancelled timers are used again.
  for (int i = 0; i < 100; ++i) {
    sleep(queue, waits, microseconds(1), log, '.');
    while (queue.step()) continue;
  }
  EXPECT_EQ(log.size(), 103u);
}

TEST(EventQueue, PostedWorkRunsInOrder) {
  EventQueue queue;
  std::string log;
  queue.post([&] {
    log += 'a';
    queue.post([&] { log += 'c'; });
  });
  queue.post([&] { log += 'b'; });
  EXPECT_EQ(log, "");
  while (queue.step()) continue;
  EXPECT_EQ(log, "abc");
  queue.post([] {});  // dies with the queue
}

}  // namespace
}  // namespace taxon::sim
