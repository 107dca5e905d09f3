// What codecs did, as runs report it: in the virtual world times follow from the device's figures alone.
#include "train/report/codec_stats.h"

#include "codec/codec.h"
#include "exchange/compression/aggregation.h"
#include "support/clusters.h"
#include "train/toy_job.h"
#include "train/virtual_run.h"

namespace taxon::test {
namespace {

constexpr double kBandwidth = 1e6;

class CodecStats : public Train {
 protected:
  static plan::Plan coarse(const plan::CodecPlan& codec) {
    plan::Plan plan = toy_plan(DType::Float32);
    plan.length.steps = 6;
    plan.optimiser.rule = "sgd";
    plan.exchange.bucket_bytes = plan.exchange.slice_bytes = 1 << 20;
    plan.exchange.levels[0].codec = codec;
    return plan;
  }
  TrainingResult run(int ranks, const plan::Plan& plan) {
    plan::ClusterModel cluster = separate_hosts(ranks);
    cluster.hosts[0].device.memory_bandwidth = kBandwidth;
    return run_virtual_training(job(ranks, plan), cluster);
  }
  /// Values of the one bucket: each tensor begins a line.
  static std::size_t count() {
    constexpr std::size_t kLine = 16;
    std::size_t count = 0;
    for (int tensor : {kClasses, kClasses * kHidden, kHidden, kHidden * kInputs, 3})
      count += (static_cast<std::size_t>(tensor) + kLine - 1) / kLine * kLine;
    return count;
  }
};

TEST_F(CodecStats, TimesAndBytesOfTopKAreTheClosedForms) {
  const plan::CodecPlan codec{.name = "top_k", .options = {{"density", 0.25}}};
  const int ranks = 3;
  const TrainingResult result = run(ranks, coarse(codec));
  const auto coder = codec::find_codec("top_k").make(codec.options);
  const std::size_t bytes = count() * sizeof(float);
  const auto d = static_cast<double>(count());
  // A value is read, found and taken (5 bytes) and remembered (12); everybody decodes everybody's entries.
  const double encode = std::floor(d * 17) / kBandwidth, decode = ranks * std::floor(d * 6) / kBandwidth;
  const double dense = exchange::row_for(net::Operation::AllReduce, ranks, bytes).sent({ranks, bytes, false});
  const auto sent = static_cast<double>((ranks - 1) * coder->wire_bytes(0, count()));
  for (const train::Outcome& outcome : result.outcomes) {
    ASSERT_EQ(outcome.codecs.size(), 1u);
    const train::CodecReport& report = outcome.codecs[0];
    EXPECT_EQ(report.level, 0);
    EXPECT_EQ(report.codec, "top_k");
    EXPECT_NEAR(report.encode_seconds, encode, 1e-9);
    EXPECT_NEAR(report.decode_seconds, decode, 1e-9);
    EXPECT_NEAR(report.dense_bytes, dense, 1e-9);
    EXPECT_NEAR(report.sent_bytes, sent, 1e-9);
  }
  // The exchange of a step may end in the next one.
  double encoded = 0;
  for (const train::StepReport& step : result.recorders[1].steps) encoded += to_seconds(step.encode);
  EXPECT_GE(encoded, 5 * encode - 1e-9);
  EXPECT_LE(encoded, 6 * encode + 1e-9);
}

TEST_F(CodecStats, WhatTravelsAsItIsIsInTheRatio) {
  const TrainingResult result =
      run(2, coarse({.name = "top_k", .dense_below = 1 << 20, .options = {{"density", 0.25}}}));
  const train::CodecReport& report = result.outcomes[0].codecs.at(0);
  EXPECT_EQ(report.encode_seconds + report.decode_seconds, 0);
  EXPECT_EQ(report.dense_bytes, report.sent_bytes);
  EXPECT_GT(report.sent_bytes, 0);
}

TEST_F(CodecStats, DenseRunsHaveNothingToReport) {
  EXPECT_TRUE(run(2, coarse({})).outcomes[0].codecs.empty());
}

}  // namespace
}  // namespace taxon::test
