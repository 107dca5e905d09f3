#include "task/poll_loop.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "task/event.h"
#include "task/scope.h"

namespace taxon::task {
namespace {

using namespace std::chrono_literals;

struct Loop {
  PollLoop loop;
  PendingOps waits;
  std::vector<std::string> log;
};

// --- time ----------------------------------------------------------------------------------------------

Task<void> sleep_note(Loop* w, Instant when, std::string name) {
  SleepUntil sleep(w->loop, w->waits, when);
  co_await sleep;
  EXPECT_GE(w->loop.now(), when);
  w->log.push_back(name);
}

Task<void> sleepers(Loop* w) {
  Scope scope(w->waits);
  Instant start = w->loop.now() + 50ms;  // all are asleep by then, or nearly always
  auto late = sleep_note(w, start + 1ms, "late");
  auto tie1 = sleep_note(w, start, "tie 1");
  auto tie2 = sleep_note(w, start, "tie 2");
  auto past = sleep_note(w, Instant(), "past");
  scope.spawn(std::move(late));
  scope.spawn(std::move(tie1));
  scope.spawn(std::move(tie2));
  scope.spawn(std::move(past));
  w->log.push_back("spawned");
  auto join = scope.join();
  co_await join;
}

TEST(PollLoop, SleepersResumeByTimeThenByOrderAndNeverInsideTheCall) {
  Loop w;
  w.loop.run(sleepers(&w));
  EXPECT_EQ(w.log, (std::vector<std::string>{"spawned", "past", "tie 1", "tie 2", "late"}));
  EXPECT_GT(w.loop.sleeps(), 0U);
}

Task<void> ask_for_the_past(Loop* w, const bool* stop) {
  while (!*stop) {
    SleepUntil sleep(w->loop, w->waits, Instant());
    co_await sleep;
  }
}

Task<void> yield_few(Loop* w, bool* stop) {
  for (int i = 0; i < 3; ++i) {
    Yield turn(w->loop);
    co_await turn;
  }
  *stop = true;
}

Task<void> fairness(Loop* w) {
  bool stop = false;
  Scope scope(w->waits);
  auto greedy = ask_for_the_past(w, &stop);
  auto modest = yield_few(w, &stop);
  scope.spawn(std::move(greedy));
  scope.spawn(std::move(modest));
  auto join = scope.join();
  co_await join;
}

TEST(PollLoop, WhoAsksForThePastDoesNotStarveTheOthers) {
  Loop w;
  w.loop.run(fairness(&w));
}

TEST(PollLoopDeathTest, ATimerIsCancelledOnlyBeforeItFires) {
  PollLoop loop;
  auto timer = loop.resume_at(loop.now() + 1h, std::noop_coroutine());
  loop.cancel(timer);
  EXPECT_DEATH(loop.cancel(timer), "has fired");
}

// --- posts ---------------------------------------------------------------------------------------------

Task<void> wait_for(Event* event) {
  auto wait = event->wait("posts");
  co_await wait;
}

TEST(PollLoop, RunsPostsOfOneThreadInOrder) {
  Loop w;
  Event done(w.loop, w.waits);
  std::vector<int> order;
  std::thread poster([&] {
    for (int i = 0; i < 1000; ++i) w.loop.post([&order, i] { order.push_back(i); });
    w.loop.post([&done] { done.set(); });
  });
  w.loop.run(wait_for(&done));
  poster.join();
  ASSERT_EQ(order.size(), 1000U);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

/// Each poster waits until its post ran before it makes the next, so that the loop goes to sleep in between.
/// A lost wake-up would hang.
TEST(PollLoop, LosesNoPostOfSeveralThreadsWhileItSleeps) {
  constexpr int kThreads = 4, kPosts = 300;
  Loop w;
  Event done(w.loop, w.waits);
  int ran = 0;
  std::vector<std::thread> posters;
  for (int t = 0; t < kThreads; ++t)
    posters.emplace_back([&] {
      for (int i = 0; i < kPosts; ++i) {
        std::atomic<bool> seen{false};
        w.loop.post([&] {
          if (++ran == kThreads * kPosts) done.set();
          seen.store(true);
          seen.notify_one();
        });
        seen.wait(false);
      }
    });
  w.loop.run(wait_for(&done));
  for (std::thread& poster : posters) poster.join();
  EXPECT_EQ(ran, kThreads * kPosts);
  EXPECT_GT(w.loop.sleeps(), 0U);
}

TEST(PollLoop, PostsMoveOnlyWork) {
  Loop w;
  Event done(w.loop, w.waits);
  auto owned = std::make_unique<int>(5);
  int seen = 0;
  w.loop.post([&, owned = std::move(owned)] {
    seen = *owned;
    done.set();
  });
  w.loop.run(wait_for(&done));
  EXPECT_EQ(seen, 5);
}

TEST(PollLoop, KeepsPostsForTheNextRun) {
  Loop w;
  Event first(w.loop, w.waits), second(w.loop, w.waits);
  w.loop.post([&] { first.set(); });
  w.loop.run(wait_for(&first));
  w.loop.post([&] { second.set(); });
  w.loop.run(wait_for(&second));
}

// --- pollables -----------------------------------------------------------------------------------------

/// A transport of one kind of message: another thread delivers, poll() hands over.
class FakePollable final : public Pollable {
 public:
  FakePollable() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  ~FakePollable() override { close(fd_); }

  /// Any thread.
  void deliver() {
    pending_.fetch_add(1);
    if (armed_.load()) {
      std::uint64_t one = 1;
      EXPECT_EQ(write(fd_, &one, sizeof one), 8);
    }
  }

  bool poll() override {
    EXPECT_FALSE(armed_.load()) << "polled between arm() and disarm()";
    int ready = pending_.exchange(0);
    received += ready;
    if (ready > 0 && received == expected) done->set();
    return ready > 0;
  }
  int event_fd() override { return fd_; }
  bool arm() override {
    EXPECT_FALSE(armed_.load());
    armed_.store(true);
    ++arms;
    std::uint64_t count;
    [[maybe_unused]] auto drained = read(fd_, &count, sizeof count);
    return pending_.load() == 0;
  }
  void disarm() override {
    EXPECT_TRUE(armed_.load());
    armed_.store(false);
    ++disarms;
  }

  Event* done = nullptr;
  int expected = 0, received = 0, arms = 0, disarms = 0;

 private:
  int fd_;
  std::atomic<int> pending_{0};
  std::atomic<bool> armed_{false};
};

TEST(PollLoop, APollableWakesTheSleepingLoop) {
  Loop w;
  Event done(w.loop, w.waits);
  FakePollable pollable;
  pollable.done = &done;
  pollable.expected = 500;
  w.loop.add(pollable);
  std::thread sender([&] {
    for (int i = 0; i < pollable.expected; ++i) {
      pollable.deliver();
      if (i % 8 == 0) std::this_thread::yield();
    }
  });
  w.loop.run(wait_for(&done));
  sender.join();
  w.loop.remove(pollable);
  EXPECT_EQ(pollable.received, 500);
  EXPECT_EQ(pollable.arms, pollable.disarms);
}

/// arm() that finds work: nobody sleeps, everything that was armed is disarmed.
class Busy final : public Pollable {
 public:
  bool poll() override { return ++polls > 3 ? (done->set(), true) : false; }
  int event_fd() override { return -1; }
  bool arm() override { return ++arms, false; }
  void disarm() override { ++disarms; }
  Event* done = nullptr;
  int polls = 0, arms = 0, disarms = 0;
};

class Quiet final : public Pollable {
 public:
  bool poll() override { return false; }
  int event_fd() override { return -1; }
  bool arm() override { return ++arms, true; }
  void disarm() override { ++disarms; }
  int arms = 0, disarms = 0;
};

TEST(PollLoop, DoesNotSleepWhenArmingFindsWork) {
  Loop w;
  Event done(w.loop, w.waits);
  Busy busy;
  Quiet before, after;
  busy.done = &done;
  w.loop.add(before);
  w.loop.add(busy);
  w.loop.add(after);
  w.loop.run(wait_for(&done));
  EXPECT_EQ(w.loop.sleeps(), 0U);
  EXPECT_GT(busy.arms, 0);
  EXPECT_EQ(busy.arms, busy.disarms);
  EXPECT_EQ(before.arms, before.disarms);
  EXPECT_EQ(after.arms, 0) << "the one before had refused";
  for (Pollable* p : std::vector<Pollable*>{&before, &busy, &after}) w.loop.remove(*p);
}

/// Looks everywhere only in the poll after arm() has said so, and sleeps only after that.
class Thorough final : public Pollable {
 public:
  bool poll() override {
    looked_ = std::exchange(asked_, false);
    return false;
  }
  int event_fd() override { return -1; }
  bool arm() override {
    asked_ = !looked_;
    return looked_;
  }
  void disarm() override {}

 private:
  bool asked_ = false, looked_ = false;
};

TEST(PollLoop, DoesNotSpinAgainAfterArmingWasRefused) {
  PollLoop loop(PollOptions{.spin = 1ms, .when_idle = PollOptions::WhenIdle::Spin});
  PendingOps waits;
  Thorough pollable;
  loop.add(pollable);
  const auto wait = [&]() -> Task<void> {
    SleepUntil pause(loop, waits, loop.now() + 20ms);
    co_await pause;
  };
  loop.run(wait());
  loop.remove(pollable);
  EXPECT_GT(loop.sleeps(), 0U);
}

TEST(PollLoop, SpinsBeforeItSleeps) {
  PollLoop loop(PollOptions{.spin = 1h, .when_idle = PollOptions::WhenIdle::Spin});
  PendingOps waits;
  Event done(loop, waits);
  std::thread poster([&] {
    std::this_thread::sleep_for(1ms);
    loop.post([&done] { done.set(); });
  });
  loop.run(wait_for(&done));
  poster.join();
  EXPECT_EQ(loop.sleeps(), 0U);
}

}  // namespace
}  // namespace taxon::task
