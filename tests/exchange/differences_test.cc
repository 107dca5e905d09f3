// Where replicas meet through a codec: what travels is how far they went, and nothing of it is lost.
#include "exchange/compression/differences.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "codec/codec.h"
#include "exchange/extensions.h"
#include "exchange/levels/levels.h"
#include "support/ranks.h"
#include "tensor/cpu_device.h"

namespace taxon::exchange {
namespace {

constexpr int kMeetings = 8;
constexpr std::size_t kCount = 600, kFirst = 16;

plan::LevelPlan level_with(const std::string& codec, const std::string& topology) {
  plan::LevelPlan level;
  level.topology = topology;
  level.rule = "average";
  level.codec.name = codec;
  level.codec.options = {{"density", 0.1}, {"columns", 0.3}, {"threshold", 0.05}};
  return level;
}

struct SeenDifferences {
  std::vector<double> weights;  // that all had in the end
  std::vector<double> went;     // all replicas, in all
  std::vector<double> state;    // over all replicas
};

float begins_at(std::size_t i) { return static_cast<float>(i % 7) - 3; }

std::vector<float> way(int rank, int meeting) {
  Rng rng(static_cast<std::uint64_t>(meeting), "way", static_cast<std::uint64_t>(rank));
  std::vector<float> values(kCount);
  for (float& value : values) value = static_cast<float>(0.1 * (2 * rng.uniform() - 1));
  return values;
}

task::Task<void> meet_often(const plan::LevelPlan* plan, int ranks, net::Transport* transport,
                            SeenDifferences* seen) {
  tensor::CpuDevice device(transport->executor());
  comm::FlightRecorder recorder;
  comm::Runtime runtime{*transport, device, recorder};
  std::vector<Rank> everybody;
  for (int r = 0; r < ranks; ++r) everybody.emplace_back(r);
  comm::Communicator all(runtime, "data", everybody);
  auto establish = all.establish();
  co_await establish;
  Levels levels(all, {*plan}, {.seed = 5});
  tensor::Arena values(*transport, DType::Float32, kCount + 32);
  const Range range{kFirst, kCount};
  auto replica = values.values<float>(range);
  for (std::size_t i = 0; i < kCount; ++i) replica[i] = begins_at(i);
  const std::vector<tensor::Slot> slots{{"t", {20, static_cast<std::int64_t>(kCount / 20)}, range}};
  levels.prepare(values, slots);
  task::Scope listeners(runtime.pending());
  auto attending = levels.serve({range}, &values, &listeners);
  co_await attending;
  LevelAlgorithms row;
  row.spread =
      plan->topology == "sharded" && ranks > 1 ? &comm::find_row(net::Operation::AllGather, "ring") : nullptr;
  const std::vector<LevelAlgorithms> rows{row};
  for (int meeting = 0; meeting < kMeetings; ++meeting) {
    const std::vector<float> mine = way(runtime.rank().value(), meeting);
    for (std::size_t i = 0; i < kCount; ++i) {
      replica[i] += mine[i];
      seen->went[i] += mine[i];
    }
    const BucketTransfer transfer{3, 0, range, &rows, meeting};
    auto reducing = levels.reduce(transfer, values);
    const double weight = co_await reducing;
    EXPECT_EQ(weight, ranks);
    for (float& value : values.values<float>(levels.owned(range))) value /= static_cast<float>(weight);
    auto spreading = levels.spread(transfer, values);
    co_await spreading;
  }
  if (seen->weights.empty()) seen->weights.assign(replica.begin(), replica.end());
  for (std::size_t i = 0; i < kCount; ++i) EXPECT_EQ(seen->weights[i], replica[i]) << i;
  for (const Topology::StateArena& state : levels.state()) {
    const auto own = state.values->values<float>(range);
    for (std::size_t i = 0; i < kCount; ++i) {
      if (state.name == "level 0 errors") seen->state[i] += own[i];
      if (state.name == "level 0 agreed") {
        EXPECT_EQ(own[i], replica[i]);
      }
    }
  }
  auto close = comm::find_row(net::Operation::Barrier, "dissemination").run(all, comm::Call{});
  co_await close;
}

class CodedMeeting : public testing::TestWithParam<std::string> {};

TEST_P(CodedMeeting, WhatReplicasWentIsInTheMeanOrKept) {
  const codec::CodecRow& row = codec::find_codec(GetParam());
  for (const char* topology : {"all_reduce", "sharded"})
    for (int ranks : {1, 2, 3, 4}) {
      if (std::string(topology) == "sharded" && !codec::stands_alone(row)) continue;
      SCOPED_TRACE(testing::Message() << topology << ", " << ranks << " ranks");
      plan::LevelPlan level = level_with(GetParam(), topology);
      level.codec.feedback = plan::FeedbackKind::Memory;
      SeenDifferences seen{{}, std::vector<double>(kCount), std::vector<double>(kCount)};
      test::run_ranks(ranks, [&](net::Transport& t) { return meet_often(&level, ranks, &t, &seen); },
                      {.share_memory = false});
      for (std::size_t i = 0; i < kCount; ++i)
        ASSERT_NEAR(ranks * (seen.weights[i] - begins_at(i)) + seen.state[i], seen.went[i], 1e-4) << i;
    }
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const codec::CodecRow& row : codec::codec_table())
    if (!row.votes) names.emplace_back(row.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Codecs, CodedMeeting, testing::ValuesIn(names()),
                         [](const testing::TestParamInfo<std::string>& info) { return info.param; });

}  // namespace
}  // namespace taxon::exchange
