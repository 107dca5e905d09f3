#include "task/task.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "task/event.h"
#include "task/poll_loop.h"
#include "task/scope.h"

namespace taxon::task {
namespace {

Task<int> ready(int value) { co_return value; }

Task<std::int64_t> sum_of_ready(int count) {
  std::int64_t sum = 0;
  for (int i = 0; i < count; ++i) {
    auto child = ready(i);
    sum += co_await child;
  }
  co_return sum;
}

TEST(Task, AMillionReadyChildrenDoNotGrowTheStack) {
  PollLoop loop;
  EXPECT_EQ(loop.run(sum_of_ready(1'000'000)), std::int64_t{999'999} * 500'000);
}

Task<int> after_yield(Executor* executor, int value) {
  Yield turn(*executor);
  co_await turn;
  co_return value;
}

Task<std::int64_t> sum_of_yielding(Executor* executor, int count) {
  std::int64_t sum = 0;
  for (int i = 0; i < count; ++i) {
    auto child = after_yield(executor, 1);
    sum += co_await child;
  }
  co_return sum;
}

TEST(Task, ManyChildrenThatSuspendDoNotGrowTheStack) {
  PollLoop loop;
  EXPECT_EQ(loop.run(sum_of_yielding(&loop, 100'000)), 100'000);
}

Task<int> count_down(int depth) {
  if (depth == 0) co_return 0;
  auto deeper = count_down(depth - 1);
  co_return 1 + co_await deeper;
}

TEST(Task, NestedTasksReturnThroughEveryLevel) {
  PollLoop loop;
  EXPECT_EQ(loop.run(count_down(500)), 500);
}

Task<std::unique_ptr<std::string>> make_string() { co_return std::make_unique<std::string>("moved"); }

TEST(Task, ReturnsMoveOnlyValues) {
  PollLoop loop;
  EXPECT_EQ(*loop.run(make_string()), "moved");
}

TEST(Task, NothingLeftNeedsNoFrameAndDoesNotSuspend) {
  PollLoop loop;
  auto main = []() -> Task<int> {
    auto left = Task<void>::nothing_left();
    EXPECT_TRUE(left.done());
    auto moved = std::move(left);
    co_await moved;
    co_return 3;
  };
  EXPECT_EQ(loop.run(main()), 3);
}

Task<int> fails(Executor* executor, bool later) {
  if (later) {
    Yield turn(*executor);
    co_await turn;
  }
  throw std::runtime_error("from the depth");
}

Task<std::string> catches(Executor* executor, bool later) {
  std::string text;
  try {
    auto child = fails(executor, later);
    co_await child;
  } catch (const std::runtime_error& error) {
    text = error.what();
  }
  co_return text;
}

TEST(Task, ExceptionsTravelToTheAwaiter) {
  PollLoop loop;
  EXPECT_EQ(loop.run(catches(&loop, false)), "from the depth");
  EXPECT_EQ(loop.run(catches(&loop, true)), "from the depth");
  EXPECT_THROW(loop.run(fails(&loop, false)), std::runtime_error);
  EXPECT_THROW(loop.run(fails(&loop, true)), std::runtime_error);
}

Task<void> hold(std::shared_ptr<int> value, Executor* executor) {
  std::shared_ptr<int> local = value;
  Yield turn(*executor);
  co_await turn;
}

TEST(Task, AFrameDiesWithItsTask) {
  auto value = std::make_shared<int>(1);
  PollLoop loop;
  {
    Task<void> never_started = hold(value, &loop);
    EXPECT_GT(value.use_count(), 1);
  }
  EXPECT_EQ(value.use_count(), 1);
  loop.run(hold(value, &loop));
  EXPECT_EQ(value.use_count(), 1);
}

TEST(Task, DoneTellsTheState) {
  Task<int> empty;
  EXPECT_FALSE(empty.done());
  Task<int> fresh = ready(1);
  EXPECT_FALSE(fresh.done());
  fresh.await_suspend(std::noop_coroutine());
  EXPECT_TRUE(fresh.done());
  EXPECT_EQ(fresh.await_resume(), 1);
}

TEST(TaskDeathTest, IsAwaitedOnce) {
  Task<int> task = ready(1);
  task.await_suspend(std::noop_coroutine());
  EXPECT_DEATH(task.await_suspend(std::noop_coroutine()), "awaited once");
}

Task<void> wait_on(Event* event) {
  auto wait = event->wait("test");
  co_await wait;
}

TEST(TaskDeathTest, DoesNotDieWhileItIsSuspended) {
  EXPECT_DEATH(
      {
        PollLoop loop;
        PendingOps waits;
        Event event(loop, waits);
        Task<void> task = wait_on(&event);
        task.await_suspend(std::noop_coroutine());
        { Task<void> owner = std::move(task); }
      },
      "destroyed while it was suspended");
}

/// A child that is resumed, and ends, while its awaiter is still inside await_suspend.
Task<void> wait_and_note(Event* event, std::vector<int>* log) {
  auto wait = event->wait("test");
  co_await wait;
  log->push_back(1);
}

Task<void> set_event(Event* event) {
  event->set();
  co_return;
}

Task<void> outer(Event* event, std::vector<int>* log, PendingOps* waits) {
  Scope scope(*waits);
  auto waiting = wait_and_note(event, log);
  scope.spawn(std::move(waiting));
  auto setting = set_event(event);
  co_await setting;
  log->push_back(2);
  auto join = scope.join();
  co_await join;
  log->push_back(3);
}

TEST(Task, ResumesOthersWhileItStarts) {
  PollLoop loop;
  PendingOps waits;
  Event event(loop, waits);
  std::vector<int> log;
  loop.run(outer(&event, &log, &waits));
  EXPECT_EQ(log, (std::vector<int>{1, 2, 3}));
}

}  // namespace
}  // namespace taxon::task
