#include "task/wait.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "task/event.h"
#include "task/poll_loop.h"
#include "task/scope.h"

namespace taxon::task {
namespace {

using Log = std::vector<std::string>;

std::exception_ptr failure(const char* text) { return std::make_exception_ptr(std::runtime_error(text)); }

/// Waits for `event`, then notes "name", or "name: what it threw".
Task<void> note(Event* event, std::string name, Log* log) {
  std::string entry = name;
  try {
    auto wait = event->wait("test", name, Rank(7));
    co_await wait;
  } catch (const std::exception& error) {
    entry += std::string(": ") + error.what();
  }
  log->push_back(entry);
}

Task<void> pass_on(Event* event, std::string name, Log* log) {
  auto wait = event->wait("test", name);
  co_await wait;
  log->push_back(name);
}

struct World {
  PollLoop loop;
  PendingOps waits;
  Log log;
};

// --- Event ---------------------------------------------------------------------------------------------

Task<void> three_waiters(World* w) {
  Event event(w->loop, w->waits);
  Scope scope(w->waits);
  for (const char* name : {"a", "b", "c"}) {
    auto child = note(&event, name, &w->log);
    scope.spawn(std::move(child));
  }
  EXPECT_EQ(w->waits.size(), 3U);
  EXPECT_FALSE(event.is_set());
  event.set();
  EXPECT_TRUE(event.is_set());
  event.set();
  auto late = note(&event, "late", &w->log);
  co_await late;
  auto join = scope.join();
  co_await join;
}

TEST(Event, ResumesItsWaitersInOrderAndLetsLaterOnesThrough) {
  World w;
  w.loop.run(three_waiters(&w));
  EXPECT_EQ(w.log, (Log{"a", "b", "c", "late"}));
  EXPECT_EQ(w.waits.size(), 0U);
}

Task<void> failing_event(World* w) {
  Event event(w->loop, w->waits);
  Scope scope(w->waits);
  auto early = note(&event, "early", &w->log);
  scope.spawn(std::move(early));
  event.fail(failure("broken"));
  auto late = note(&event, "late", &w->log);
  co_await late;
  auto join = scope.join();
  co_await join;
}

TEST(Event, FailThrowsInEveryWaiter) {
  World w;
  w.loop.run(failing_event(&w));
  EXPECT_EQ(w.log, (Log{"early: broken", "late: broken"}));
}

Task<void> posted_event(World* w) {
  Event event(w->loop, w->waits);
  std::thread other([&event, w] { w->loop.post([&event] { event.set(); }); });
  auto wait = note(&event, "posted", &w->log);
  co_await wait;
  other.join();
}

TEST(Event, IsSetFromAnotherThreadByPost) {
  World w;
  w.loop.run(posted_event(&w));
  EXPECT_EQ(w.log, (Log{"posted"}));
}

/// The first waiter's failure cancels the rank while the second is still to be resumed by the same event.
Task<void> waiter_cancels(World* w) {
  Event event(w->loop, w->waits);
  Scope scope(w->waits);
  for (const char* name : {"a", "b"}) {
    auto child = pass_on(&event, name, &w->log);
    scope.spawn(std::move(child));
  }
  event.fail(failure("broken"));
  auto join = scope.join();
  co_await join;
}

TEST(Event, AWaiterThatFailsMayCancelTheOthersOfTheSameEvent) {
  World w;
  EXPECT_THROW(w.loop.run(waiter_cancels(&w)), std::runtime_error);
  EXPECT_EQ(w.waits.size(), 0U);
}

Task<void> cancel_then(Event* event, World* w) {
  auto wait = event->wait("test");
  co_await wait;
  w->waits.cancel(failure("cancelled"));
}

Task<void> cancel_while_firing(World* w) {
  Event event(w->loop, w->waits), other(w->loop, w->waits);
  Scope scope(w->waits);
  auto first = cancel_then(&event, w);
  auto second = note(&event, "same event", &w->log);
  auto third = note(&other, "other event", &w->log);
  scope.spawn(std::move(first));
  scope.spawn(std::move(second));
  scope.spawn(std::move(third));
  event.set();
  auto join = scope.join();
  co_await join;
}

TEST(Event, WaitersThatItReleasedAreNoLongerCancelled) {
  World w;
  w.loop.run(cancel_while_firing(&w));
  EXPECT_EQ(w.log, (Log{"other event: cancelled", "same event"}));
}

Task<void> own_event(World* w, Event** place) {
  Event event(w->loop, w->waits);
  *place = &event;
  auto wait = event.wait("test");
  co_await wait;
  w->log.push_back("owner");
}

TEST(Event, TheLastWaiterMayDestroyIt) {
  World w;
  Event* event = nullptr;
  w.loop.post([&event] { event->set(); });
  w.loop.run(own_event(&w, &event));
  EXPECT_EQ(w.log, (Log{"owner"}));
}

// --- PendingOps
// ---------------------------------------------------------------------------------------------

Task<void> look_at_waits(World* w) {
  Event first(w->loop, w->waits), second(w->loop, w->waits);
  Scope scope(w->waits);
  Instant before = w->loop.now();
  auto a = note(&first, "bucket 0", &w->log);
  scope.spawn(std::move(a));
  auto b = note(&second, "bucket 1", &w->log);
  scope.spawn(std::move(b));
  std::vector<WaitInfo> all = w->waits.snapshot();
  EXPECT_EQ(all.size(), 2U);
  if (all.size() == 2) {
    EXPECT_EQ(all[0].operation, "test");
    EXPECT_EQ(all[0].subject, "bucket 0");
    EXPECT_EQ(all[0].peer, Rank(7));
    EXPECT_EQ(all[1].subject, "bucket 1");
    EXPECT_GE(all[0].since, before);
    EXPECT_LE(all[0].since, all[1].since);
  }
  first.set();
  EXPECT_EQ(w->waits.snapshot().size(), 1U);
  second.set();
  EXPECT_TRUE(w->waits.snapshot().empty());
  auto join = scope.join();
  co_await join;
}

TEST(PendingOps, SnapshotTellsWhoWaitsForWhat) {
  World w;
  w.loop.run(look_at_waits(&w));
}

/// A wait that tells the log when its two halves of a cancellation run.
class Traced final : public Wait {
 public:
  Traced(PendingOps& waits, std::string name, Log& log) : waits_(waits), name_(std::move(name)), log_(log) {}
  WaitInfo describe() const override { return {name_, {}, {}, {}}; }
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> then) { then_ = then, list_in(waits_); }
  void await_resume() {
    if (error_) std::rethrow_exception(error_);
  }

 protected:
  bool release(std::exception_ptr why) override {
    log_.push_back("release " + name_);
    error_ = why;
    return true;
  }
  void resume_released() override {
    log_.push_back("resume " + name_);
    then_.resume();
  }

 private:
  PendingOps& waits_;
  std::string name_;
  Log& log_;
  std::coroutine_handle<> then_;
  std::exception_ptr error_;
};

Task<void> traced(World* w, std::string name) {
  Traced wait(w->waits, name, w->log);
  co_await wait;
}

Task<void> cancel_two(World* w) {
  Scope scope(w->waits);
  for (const char* name : {"a", "b"}) {
    auto child = traced(w, name);
    scope.spawn(std::move(child));
  }
  w->waits.cancel(failure("over"));
  auto join = scope.join();
  co_await join;
}

TEST(PendingOps, CancellationReleasesAllBeforeItResumesAny) {
  World w;
  EXPECT_THROW(w.loop.run(cancel_two(&w)), std::runtime_error);
  EXPECT_EQ(w.log, (Log{"release a", "release b", "resume a", "resume b"}));
}

Task<void> wait_after_cancel(World* w) {
  w->waits.cancel(failure("first"));
  w->waits.cancel(failure("second"));
  Event event(w->loop, w->waits);
  auto on_event = note(&event, "event", &w->log);
  co_await on_event;
  std::string text;
  try {
    SleepUntil sleep(w->loop, w->waits, w->loop.now() + std::chrono::hours(1));
    co_await sleep;
  } catch (const std::exception& error) {
    text = error.what();
  }
  w->log.push_back("sleep: " + text);
}

TEST(PendingOps, LaterWaitsFailAtOnceAndTheFirstCauseCounts) {
  World w;
  w.loop.run(wait_after_cancel(&w));
  EXPECT_EQ(w.log, (Log{"event: first", "sleep: first"}));
}

// --- Scope ---------------------------------------------------------------------------------------------

Task<void> turns(World* w, std::string name, int count) {
  for (int i = 0; i < count; ++i) {
    Yield turn(w->loop);
    co_await turn;
    w->log.push_back(name + std::to_string(i));
  }
}

Task<void> two_children(World* w) {
  Scope scope(w->waits);
  auto a = turns(w, "a", 3);
  auto b = turns(w, "b", 2);
  scope.spawn(std::move(a));
  scope.spawn(std::move(b));
  EXPECT_EQ(scope.live(), 2U);
  auto join = scope.join();
  co_await join;
  EXPECT_EQ(scope.live(), 0U);
  w->log.push_back("joined");
}

TEST(Scope, ChildrenTakeTurnsAndAreJoined) {
  World w;
  w.loop.run(two_children(&w));
  EXPECT_EQ(w.log, (Log{"a0", "b0", "a1", "b1", "a2", "joined"}));
}

Task<void> sleep_long(World* w) {
  std::string entry = "slept";
  try {
    SleepUntil sleep(w->loop, w->waits, w->loop.now() + std::chrono::hours(1), "long sleep");
    co_await sleep;
  } catch (const std::exception& error) {
    entry = error.what();
  }
  w->log.push_back(entry);
}

Task<void> fail_after_turn(World* w) {
  Yield turn(w->loop);
  co_await turn;
  throw std::runtime_error("the culprit");
}

Task<void> failing_child(World* w) {
  Event never(w->loop, w->waits);
  Scope scope(w->waits);
  auto a = sleep_long(w);
  auto b = note(&never, "event", &w->log);
  auto c = fail_after_turn(w);
  auto d = pass_on(&never, "never", &w->log);
  scope.spawn(std::move(a));
  scope.spawn(std::move(b));
  scope.spawn(std::move(c));
  scope.spawn(std::move(d));
  auto join = scope.join();
  co_await join;
}

TEST(Scope, AFailingChildUnwindsItsSiblingsAndJoinThrowsTheFirstFailure) {
  World w;
  try {
    w.loop.run(failing_child(&w));
    FAIL() << "join must throw";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the culprit");
  }
  EXPECT_EQ(w.log, (Log{"the culprit", "event: the culprit"}));
}

Task<void> join_ready(World* w) {
  Scope scope(w->waits);
  auto empty = scope.join();
  co_await empty;
  auto child = turns(w, "x", 0);
  scope.spawn(std::move(child));
  auto join = scope.join();
  co_await join;
  w->log.push_back("joined");
}

TEST(Scope, JoinsWhatIsAlreadyOver) {
  World w;
  w.loop.run(join_ready(&w));
  EXPECT_EQ(w.log, (Log{"joined"}));
}

TEST(ScopeDeathTest, RefusesToForgetItsChildren) {
  EXPECT_DEATH(
      {
        World w;
        Event event(w.loop, w.waits);
        Scope scope(w.waits);
        auto child = pass_on(&event, "x", &w.log);
        scope.spawn(std::move(child));
      },
      "1 children were not joined");
}

}  // namespace
}  // namespace taxon::task
