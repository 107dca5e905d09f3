#include "job/last_resort.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace taxon::test {
namespace {

TEST(LastResort, IsThereWhileATaskRunsThatAnEventShouldUnwind) {
  job::LastResort resort;
  resort.on_loss();
  EXPECT_EQ(alarm(0), 0U) << "nothing runs";
  resort.set_running(true);
  EXPECT_GT(alarm(100), 0U);
  resort.set_waiting_for_program(true);
  EXPECT_EQ(alarm(0), 0U);
  resort.set_waiting_for_program(false);
  EXPECT_GT(alarm(100), 0U);
  resort.set_running(false);
  EXPECT_EQ(alarm(0), 0U);
}

TEST(LastResort, LeavesTheProgramsOwnAlarmAlone) {
  job::LastResort resort;
  alarm(100);
  resort.set_running(true);
  resort.set_running(false);
  resort.on_loss();
  EXPECT_GT(alarm(0), 0U);
}

/// Events come on a thread of their own. An alarm that they set late would end the program's clean-up.
TEST(LastResort, LeavesNoAlarmToATaskThatEndsAsTheEventComes) {
  constexpr int kTimes = 30000;
  std::atomic<int> turn = 0;
  std::atomic<job::LastResort*> resort = nullptr;
  std::thread events([&] {
    for (int i = 1; i <= kTimes; ++i) {
      while (turn < i) std::this_thread::yield();
      resort.load()->on_loss();
      turn = -i;
    }
  });
  int left_behind = 0;
  for (int i = 1; i <= kTimes; ++i) {
    job::LastResort own;
    own.set_running(true);
    resort = &own;
    turn = i;
    for (int wait = i % 100; wait > 0; --wait) [[maybe_unused]] volatile int spin = wait;
    own.set_running(false);
    left_behind += alarm(0) != 0;
    while (turn != -i) std::this_thread::yield();
    left_behind += alarm(0) != 0;
  }
  events.join();
  EXPECT_EQ(left_behind, 0);
}

}  // namespace
}  // namespace taxon::test
