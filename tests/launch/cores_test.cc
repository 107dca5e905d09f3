// How a rank gets along with others on its cores: what the kernel says of it, what is chosen by that, and
// that OpenMP's threads follow.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "launch/core_pressure.h"
#include "launch/waiting_choice.h"

// By name, so that it is libgomp's team, whichever compiler this is (task/team.cc).
extern "C" void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
extern "C" int omp_get_thread_num(void);

namespace taxon::launch {
namespace {

/// The environment decides how OpenMP waits, and a run keeps to it.
constexpr char kWaitingIsGiven[] = "OMP_WAIT_POLICY or GOMP_SPINCOUNT is set";

class TaskFolder {
 public:
  TaskFolder() {
    std::string name = testing::TempDir() + "/tasksXXXXXX";
    path = mkdtemp(name.data());
  }
  ~TaskFolder() { std::filesystem::remove_all(path); }
  void thread(const std::string& id, double running, double queued) const {
    std::filesystem::create_directories(path / id);
    std::ofstream(path / id / "schedstat") << static_cast<std::int64_t>(running * 1e9) << " "
                                           << static_cast<std::int64_t>(queued * 1e9) << " 7\n";
  }
  void end(const std::string& id) const { std::filesystem::remove_all(path / id); }
  std::filesystem::path path;
};

TEST(CorePressure, SumsWhatThreadsDidSinceTheLastTime) {
  const TaskFolder tasks;
  tasks.thread("1", 5, 5);
  tasks.thread("2", 1, 0);
  CorePressure pressure(tasks.path);
  tasks.thread("1", 6, 5.5);
  tasks.thread("2", 1, 0.5);
  tasks.thread("3", 1, 0);  // new
  auto seen = pressure.take();
  ASSERT_TRUE(seen);
  EXPECT_NEAR(seen->running, 2, 1e-6);
  EXPECT_NEAR(seen->queued, 1, 1e-6);
  EXPECT_NEAR(queued_share(*seen), 1.0 / 3, 1e-6);
  tasks.end("1");
  seen = pressure.take();
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->running, 0) << "what a thread that ended had done is not taken back";
  EXPECT_EQ(queued_share(*seen), 0);
}

TEST(CorePressure, SaysNothingWhereTheKernelDoesNot) { EXPECT_FALSE(CorePressure("/nowhere").take()); }

TEST(CorePressure, SeesTwoThreadsOnOneCore) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  if (!CorePressure().take()) GTEST_SKIP() << "this kernel counts no waiting";
  CPU_ZERO(&one);
  for (unsigned core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &before)) CPU_SET(core, &one);
  sched_setaffinity(0, sizeof one, &one);
  const auto crowded = probe_pressure(0.1, 3);
  sched_setaffinity(0, sizeof before, &before);
  ASSERT_TRUE(crowded);
  EXPECT_GT(*crowded, 0.4);  // two of three wait
}

/// A machine on which a step takes as long as these say.
struct Machine {
  double active, passive;  // steps per second
  double queued;
  double speed(Waiting waiting) const { return waiting == Waiting::Active ? active : passive; }
};

/// How many of `windows` were spent in `waiting`.
int spent(WaitingChoice& choice, const Machine& machine, Waiting waiting, int windows) {
  int count = 0;
  for (int i = 0; i < windows; ++i) {
    count += choice.now() == waiting;
    choice.after(machine.speed(choice.now()), machine.queued);
  }
  return count;
}

TEST(WaitingChoice, FreeCoresStayActive) {
  WaitingChoice choice;
  EXPECT_EQ(spent(choice, {100, 50, 0.0}, Waiting::Active, 1000), 1000);
}

TEST(WaitingChoice, BusyCoresArePassiveAfterOneWindow) {
  WaitingChoice choice;
  EXPECT_EQ(spent(choice, {3, 100, 0.5}, Waiting::Active, 1000), 1);
}

TEST(WaitingChoice, WhatTheRunDoesToItselfIsNoReason) {
  // Its own threads are more than cores, and polling pays all the same.
  WaitingChoice choice;
  EXPECT_LT(spent(choice, {100, 50, 0.3}, Waiting::Passive, 2000), 20);
}

TEST(WaitingChoice, ComesBackWhenOthersHaveGone) {
  WaitingChoice choice;
  spent(choice, {3, 100, 0.5}, Waiting::Active, 50);
  ASSERT_EQ(choice.now(), Waiting::Passive);
  EXPECT_LT(spent(choice, {100, 50, 0.0}, Waiting::Passive, 1000), 20);
  EXPECT_EQ(choice.now(), Waiting::Active);
  EXPECT_EQ(spent(choice, {3, 100, 0.5}, Waiting::Active, 50), 1) << "and goes again at once";
}

TEST(WaitingChoice, SeldomTriesWhatDoesNotHelp) {
  // Passive, nobody is seen to wait; active, everything crawls.
  WaitingChoice choice(Waiting::Passive);
  EXPECT_LE(spent(choice, {3, 100, 0.0}, Waiting::Active, 2000), 10);
}

TEST(WaitingChoice, FollowsAnyMachineWithinFewWindows) {
  for (double active : {1.0, 30.0, 95.0, 120.0, 1000.0})
    for (double queued : {0.0, 0.02, 0.05, 0.2, 0.9})
      for (Waiting first : {Waiting::Active, Waiting::Passive}) {
        WaitingChoice choice(first);
        const Machine machine{active, 100, queued};
        const int at_passive = spent(choice, machine, Waiting::Passive, 2000);
        if (queued >= 0.1 && active < 90) {
          EXPECT_GT(at_passive, 1900) << active << " " << queued;
        }
        if (queued < 0.03 && active > 110) {
          EXPECT_LT(at_passive, 100) << active << " " << queued;
        }
      }
}

/// How often the team's second member gave its core away by itself while `regions` parallel regions followed
/// each other with a little serial work between.
long sleeps_of_member(int regions) {
  std::atomic<long> before = 0, after = 0;
  const auto count = [](void* switches) {
    if (omp_get_thread_num() != 1) return;
    rusage use{};
    getrusage(RUSAGE_THREAD, &use);
    static_cast<std::atomic<long>*>(switches)->store(use.ru_nvcsw);
  };
  for (int i = 0; i <= regions; ++i) {
    GOMP_parallel(count, i == 0 ? &before : &after, 2, 0);
    volatile int work = 0;
    for (int j = 0; j < 100'000; ++j) work = work + 1;
  }
  return after - before;
}

TEST(OpenMpWaiting, MembersOfATeamSleepOnlyWhileItIsPassive) {
  constexpr int kRegions = 300;
  if (OpenMpWaiting::is_given()) GTEST_SKIP() << kWaitingIsGiven;
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) GTEST_SKIP() << "one core: members always sleep";
  OpenMpWaiting waiting(static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  EXPECT_EQ(waiting.now(), Waiting::Active);
  const long active = sleeps_of_member(kRegions);
  ASSERT_EQ(waiting.set(Waiting::Passive), Waiting::Passive);
  const long passive = sleeps_of_member(kRegions);
  ASSERT_EQ(waiting.set(Waiting::Active), Waiting::Active);
  const long again = sleeps_of_member(kRegions);
  EXPECT_LT(active, passive / 2);
  EXPECT_LT(again, passive / 2);
  EXPECT_GT(passive, kRegions / 2);
}

TEST(OpenMpWaiting, RefusedThreadsLeaveItActive) {
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  const rlimit none{1 << 20, before.rlim_max};  // no memory for a stack
  OpenMpWaiting waiting(4);
  setrlimit(RLIMIT_AS, &none);
  const Waiting after = waiting.set(Waiting::Passive);
  setrlimit(RLIMIT_AS, &before);
  EXPECT_EQ(after, Waiting::Active);
}

}  // namespace
}  // namespace taxon::launch
