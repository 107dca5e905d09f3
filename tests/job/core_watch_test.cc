// What a run says and does about others on its cores.
#include "job/core_watch.h"

#include <gmock/gmock.h>

namespace taxon::job {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// The environment decides how OpenMP waits, and a run keeps to it.
constexpr char kWaitingIsGiven[] = "OMP_WAIT_POLICY or GOMP_SPINCOUNT is set";

struct Quiet final : train::Observer {
  void started(const train::RunInfo&) override {}
  void stepped(const train::StepReport&) override { ++steps; }
  void evaluated(const train::Evaluation&) override {}
  void saved(const std::string&) override {}
  void noticed(const std::string&) override {}
  int steps = 0;
};

/// A run of which CoreWatch sees windows of half a second.
struct WatchedRun {
  explicit WatchedRun(plan::ThreadWaiting waiting, int threads = 2)
      : watch(next, {.waiting = waiting,
                     .threads = threads,
                     .say = [this](const std::string& line) { lines.push_back(line); },
                     .pressure = [this] { return time; }}) {
    watch.started({});
  }
  void windows(int count, double step_seconds) {
    train::StepReport report;
    report.step_time = from_seconds(step_seconds);
    for (int i = 0; i < count; ++i)
      for (double passed = 0; passed < 0.5 || passed < 2 * step_seconds; passed += step_seconds)
        watch.stepped(report);
  }
  std::vector<std::string> lines;
  std::optional<launch::ThreadTime> time = launch::ThreadTime{1, 0};
  Quiet next;
  CoreWatch watch;
};

TEST(CoreWatch, SaysOnceThatOthersUseTheCoresAndOnceThatTheyHaveGone) {
  if (launch::OpenMpWaiting::is_given()) GTEST_SKIP() << kWaitingIsGiven;
  WatchedRun run(plan::ThreadWaiting::Auto);
  run.windows(3, 0.05);
  EXPECT_THAT(run.lines, IsEmpty());
  run.time = launch::ThreadTime{1, 1};
  run.windows(1, 0.25);
  EXPECT_THAT(run.lines, IsEmpty()) << "a trial is not talked about";
  run.windows(20, 0.05);
  EXPECT_THAT(run.lines, ElementsAre(HasSubstr("waited 50 % of the time for a core")));
  EXPECT_EQ(run.watch.use().waiting, "passive");
  run.time = launch::ThreadTime{1, 0};
  run.windows(8, 0.05);
  run.windows(5, 0.01);
  EXPECT_THAT(run.lines, ElementsAre(HasSubstr("passive"), HasSubstr("free again")));
  const report::CoreUse use = run.watch.use();
  EXPECT_EQ(use.waiting, "active");
  EXPECT_EQ(use.changes, 2);
  EXPECT_EQ(use.threads, 2);
  EXPECT_GT(use.queued_share, 0.1);
  EXPECT_GT(run.next.steps, 100);
}

TEST(CoreWatch, WhatThePlanSaysStays) {
  WatchedRun active(plan::ThreadWaiting::Active), passive(plan::ThreadWaiting::Passive);
  for (WatchedRun* run : {&active, &passive}) {
    run->time = launch::ThreadTime{1, 3};
    run->windows(30, 0.05);
    EXPECT_THAT(run->lines, ElementsAre(HasSubstr("75 %"))) << "but a busy machine is named";
    EXPECT_EQ(run->watch.use().changes, 0);
  }
  if (launch::OpenMpWaiting::is_given()) return;
  EXPECT_EQ(active.watch.use().waiting, "active");
  EXPECT_EQ(passive.watch.use().waiting, "passive");
}

TEST(CoreWatch, OneThreadWaitsForNoTeam) {
  WatchedRun run(plan::ThreadWaiting::Auto, 1);
  run.time = launch::ThreadTime{1, 1};
  run.windows(30, 0.05);
  EXPECT_THAT(run.lines, ElementsAre(HasSubstr("the cores are busy")));
  EXPECT_EQ(run.watch.use().changes, 0);
}

TEST(CoreWatch, AKernelThatCountsNothingChangesNothing) {
  WatchedRun run(plan::ThreadWaiting::Auto);
  run.time.reset();
  run.windows(30, 0.05);
  EXPECT_THAT(run.lines, IsEmpty());
  EXPECT_LT(run.watch.use().queued_share, 0);
}

}  // namespace
}  // namespace taxon::job
