// A checkpoint may be gone on from with another exchange: what holds of the old one, and what is refused.
#include "train/start/exchange_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/memory_storage.h"
#include "train/modes.h"
#include "train/toy_job.h"

namespace taxon::test {
namespace {

using testing::Contains;
using testing::HasSubstr;

class ExchangeChanges : public Train {
 protected:
  static constexpr int kStop = 10;
  /// Stops after kStop steps of `before` and goes on with `after`.
  TrainingResult run(const plan::Plan& before, const plan::Plan& after) {
    data::MemoryStorage storage;
    run_training(stopping(job(4, before), kStop, &storage));
    return run_training(going_on(job(4, after), &storage));
  }
  std::string refusal(const plan::Plan& before, const plan::Plan& after) {
    try {
      run(before, after);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Usage);
      return error.what();
    }
    return "";
  }
  static plan::Plan with(plan::LevelPlan level) {
    plan::Plan plan = toy_plan();
    plan.exchange.levels = {std::move(level)};
    return plan;
  }
  static plan::Plan coded(const std::string& codec) {
    plan::Plan plan = toy_plan(DType::Float32);
    plan.exchange.levels[0].codec.name = codec;
    return plan;
  }
};

TEST_F(ExchangeChanges, BucketsAreCutAnewWhereTheyWouldBeOthers) {
  plan::Plan before = toy_plan(), after = before;
  after.exchange.bucket_bytes = 1 << 20;
  EXPECT_FALSE(train::cuts_alike(before.exchange, after.exchange));
  const auto kept = run(before, before), anew = run(before, after);
  EXPECT_GT(kept.recorders[0].info.plan.resolved.buckets.size(), 1U);
  EXPECT_EQ(anew.recorders[0].info.plan.resolved.buckets.size(), 1U);
  EXPECT_EQ(anew.outcomes[0].end, train::Outcome::End::Complete);
}

TEST_F(ExchangeChanges, WhatACodecKeepsOfThemDecidesBucketsAndNothingElseOfIt) {
  plan::ExchangePlan before, after;
  after.levels[0].codec.decay = 0.5;
  after.in_flight = 7;
  after.levels[0].collective = "ring";
  EXPECT_TRUE(train::cuts_alike(before, after));
  for (void (*change)(plan::CodecPlan&) : {+[](plan::CodecPlan& codec) { codec.name = "auto"; },
                                           +[](plan::CodecPlan& codec) { codec.name = "top_k"; },
                                           +[](plan::CodecPlan& codec) { codec.global = true; },
                                           +[](plan::CodecPlan& codec) { codec.dense_below = 9; }}) {
    after = before;
    change(after.levels[0].codec);
    EXPECT_FALSE(train::cuts_alike(before, after));
  }
}

TEST_F(ExchangeChanges, ACodecWithOtherMemoryBeginsAfresh) {
  for (const auto& [before, after] :
       {std::pair{"top_k", "power_sgd"}, {"power_sgd", "top_k"}, {"none", "top_k"}, {"top_k", "none"}}) {
    SCOPED_TRACE(std::string(before) + ", then " + after);
    const auto result = run(coded(before), coded(after));
    EXPECT_EQ(result.outcomes[0].end, train::Outcome::End::Complete);
    EXPECT_EQ(result.outcomes[0].steps, toy_plan().length.steps);
    EXPECT_EQ(result.outcomes[3].parameter_hash, result.outcomes[0].parameter_hash);
  }
  EXPECT_THAT(run(coded("top_k"), coded("power_sgd")).recorders[0].notices,
              Contains(HasSubstr("starts as in a fresh run")));
}

TEST_F(ExchangeChanges, ADelayedStepNeedsAPlaceForItsSums) {
  plan::Plan delayed = with(level("data", "sharded")), ring = delayed;
  delayed.exchange.delay = 1;
  ring.exchange.gradients = plan::GradientMemory::Ring;
  ring.exchange.order = plan::BucketOrder::Backward;
  const plan::Plan at_servers = with(served());
  EXPECT_THAT(refusal(delayed, ring), HasSubstr("gradients: ring"));
  EXPECT_THAT(refusal(delayed, at_servers), HasSubstr("servers"));
  EXPECT_EQ(refusal(delayed, with(level("data", "all_reduce"))), "");
  EXPECT_EQ(refusal(with(level("data", "all_reduce")), at_servers), "");
}

TEST_F(ExchangeChanges, AnswersThatAreOnTheirWayKeepTheirDay) {
  const plan::LevelPlan meeting = meets("average", 8);
  plan::LevelPlan late = meeting;
  late.delay = 5;  // a meeting after step 8 is adopted after step 13
  EXPECT_THAT(refusal(with(meeting), with(late)), HasSubstr("period 8, fragments 1, delay 0"));
  EXPECT_THAT(refusal(with(late), with(meeting)), HasSubstr("delay 5"));
  EXPECT_EQ(refusal(with(late), with(late)), "");
  late.delay = 2;  // of which nothing is left after step 10
  EXPECT_EQ(refusal(with(meeting), with(late)), "");
}

}  // namespace
}  // namespace taxon::test
