#include "exchange/bucket_scheduler.h"

#include <gtest/gtest.h>

#include "exchange/global_norm_clip.h"
#include "support/ranks.h"
#include "tensor/cpu_device.h"

namespace taxon::exchange {
namespace {

struct Rig {
  Rig(net::Transport& transport) : device(transport.executor()), runtime{transport, device, recorder} {}
  tensor::CpuDevice device;
  comm::FlightRecorder recorder;
  comm::Runtime runtime;
};

task::Task<void> use(BucketScheduler* lane, int sequence, Duration hold, comm::Runtime* runtime,
                     std::vector<std::string>* log) {
  auto enter = lane->enter(sequence, "test");
  BucketScheduler::Admission turn = co_await enter;
  log->push_back("+" + std::to_string(sequence));
  task::SleepUntil sleep(runtime->executor(), runtime->pending(), runtime->executor().now() + hold);
  co_await sleep;
  log->push_back("-" + std::to_string(sequence));
}

task::Task<void> use_all(net::Transport* transport, int credits, std::vector<int> arrivals,
                         std::vector<std::string>* log, std::vector<int> keys = {}) {
  Rig rig(*transport);
  BucketScheduler lane(rig.runtime, credits);
  lane.begin(keys.empty() ? std::vector<int>(arrivals.size(), 0) : keys);
  task::Scope scope(rig.runtime.pending());
  for (int sequence : arrivals)
    scope.spawn(use(&lane, sequence, std::chrono::milliseconds(20 * (1 + sequence)), &rig.runtime, log));
  co_await scope.join();
}

TEST(BucketScheduler, AdmitsTheFirstOfThoseThatWait) {
  std::vector<std::string> log;
  test::run_ranks(1, [&](net::Transport& t) { return use_all(&t, 1, {0, 3, 1, 2}, &log); });
  EXPECT_EQ(log, (std::vector<std::string>{"+0", "-0", "+1", "-1", "+2", "-2", "+3", "-3"}));
}

TEST(BucketScheduler, LetsAsManyInAsThereAreCredits) {
  std::vector<std::string> log;
  test::run_ranks(1, [&](net::Transport& t) { return use_all(&t, 2, {0, 1, 2}, &log); });
  EXPECT_EQ(log, (std::vector<std::string>{"+0", "+1", "-0", "+2", "-1", "-2"}));
}

TEST(BucketScheduler, WhoComesBeforeAllInFlightNeedsNoCredit) {
  std::vector<std::string> log;
  test::run_ranks(1, [&](net::Transport& t) { return use_all(&t, 1, {1, 0, 2}, &log); });
  EXPECT_EQ(log, (std::vector<std::string>{"+1", "+0", "-0", "-1", "+2", "-2"}));
}

TEST(BucketScheduler, KeysComeBeforeIndices) {
  std::vector<std::string> log;
  test::run_ranks(1, [&](net::Transport& t) { return use_all(&t, 1, {0, 1, 2, 3}, &log, {0, 2, 2, 1}); });
  EXPECT_EQ(log, (std::vector<std::string>{"+0", "-0", "+3", "-3", "+1", "-1", "+2", "-2"}));
}

/// Notes who runs ahead when all are in flight, and again when the first has left.
task::Task<void> look(BucketScheduler* lane, int index, comm::Runtime* runtime,
                      std::vector<std::string>* log) {
  auto enter = lane->enter(index, "test");
  BucketScheduler::Admission turn = co_await enter;
  for (int times = 0; times < (index == 0 ? 1 : 2); ++times) {
    task::SleepUntil sleep(runtime->executor(), runtime->pending(),
                           runtime->executor().now() + std::chrono::milliseconds(20 + index));
    co_await sleep;
    if (turn.runs_ahead()) log->push_back(std::to_string(index) + "." + std::to_string(times));
  }
}

task::Task<void> look_all(net::Transport* transport, std::vector<int> keys, std::vector<std::string>* log) {
  Rig rig(*transport);
  BucketScheduler lane(rig.runtime, 4);
  lane.begin(keys);
  task::Scope scope(rig.runtime.pending());
  for (int index = static_cast<int>(keys.size()) - 1; index >= 0; --index)
    scope.spawn(look(&lane, index, &rig.runtime, log));
  co_await scope.join();
}

TEST(BucketScheduler, OfThoseThatAreOvertakenOneRunsAhead) {
  std::vector<std::string> log;
  test::run_ranks(1, [&](net::Transport& t) { return look_all(&t, {0, 1, 2, 2}, &log); });
  EXPECT_EQ(log, (std::vector<std::string>{"0.0", "1.0", "2.0", "1.1", "2.1", "3.1"}));
}

TEST(BucketScheduler, EqualKeysRunAheadAlike) {
  std::vector<std::string> log;
  test::run_ranks(1, [&](net::Transport& t) { return look_all(&t, {0, 0, 0, 0}, &log); });
  EXPECT_EQ(log.size(), 7);
}

task::Task<void> fail_inside(net::Transport* transport, std::vector<std::string>* log) {
  Rig rig(*transport);
  BucketScheduler lane(rig.runtime, 1);
  lane.begin({0, 0});
  task::Scope scope(rig.runtime.pending());
  scope.spawn(use(&lane, 0, std::chrono::hours(1), &rig.runtime, log));
  scope.spawn(use(&lane, 1, std::chrono::hours(1), &rig.runtime, log));
  rig.runtime.pending().cancel(std::make_exception_ptr(Error(ErrorKind::PeerLost, "rank 1 is gone")));
  co_await scope.join();
}

TEST(BucketScheduler, ACancelledRankAdmitsNobody) {
  std::vector<std::string> log;
  EXPECT_THROW(test::run_ranks(1, [&](net::Transport& t) { return fail_inside(&t, &log); }), Error);
  EXPECT_EQ(log, (std::vector<std::string>{"+0"}));
}

task::Task<void> agree_one(GlobalNormClip* scope, int index, double squared, std::vector<double>* scales) {
  if (scope->give(index, squared)) scope->release(scope->given());
  auto factor = scope->factor("test");
  double scale = co_await factor;
  scales->push_back(scale);
}

task::Task<void> agree_all(net::Transport* transport, double clip, std::vector<double>* scales,
                           double* norm) {
  Rig rig(*transport);
  GlobalNormClip step(rig.runtime, clip);
  step.begin(3);
  task::Scope scope(rig.runtime.pending());
  scope.spawn(agree_one(&step, 2, 4.0, scales));
  scope.spawn(agree_one(&step, 0, 16.0, scales));
  EXPECT_TRUE(scales->empty());  // nobody goes before the last bucket
  scope.spawn(agree_one(&step, 1, 5.0, scales));
  co_await scope.join();
  *norm = step.norm();
}

TEST(GlobalNormClip, ReleasesAllWithOneFactorWhenTheLastBucketCame) {
  std::vector<double> scales;
  double norm = 0;
  test::run_ranks(1, [&](net::Transport& t) { return agree_all(&t, 1.0, &scales, &norm); });
  EXPECT_EQ(norm, 5.0);
  EXPECT_EQ(scales, std::vector<double>(3, 0.2));
  scales.clear();
  test::run_ranks(1, [&](net::Transport& t) { return agree_all(&t, 100.0, &scales, &norm); });
  EXPECT_EQ(scales, std::vector<double>(3, 1.0));
}

}  // namespace
}  // namespace taxon::exchange
