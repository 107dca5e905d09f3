#include "exchange/topologies/significant.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/ranks.h"
#include "tensor/cpu_device.h"

namespace taxon::exchange {
namespace {

constexpr Range kRange{16, 1000};
constexpr std::size_t kTensor = 1040;

/// Way of a member in a round at an element: whole 256ths, so that sums of a few are exact.
double way_of(int rank, int round, std::size_t i) {
  const auto mixed = (static_cast<std::size_t>(rank) * 7 + static_cast<std::size_t>(round) * 5 + i * 3) % 23;
  return (static_cast<double>(mixed) - 11) / 256;
}
double begin_of(std::size_t i) { return static_cast<double>(1 + i % 5) / 4; }

struct Story {
  int ranks = 4, rounds = 1;
  double significance = 0;
  std::vector<std::vector<double>> values;  // [rank], afterwards
  std::vector<std::vector<double>> common;  // [rank]
  std::vector<std::uint64_t> bytes;         // [rank]: sent by all rounds
};

task::Task<void> live(Story* story, net::Transport* transport) {
  tensor::CpuDevice device(transport->executor());
  comm::FlightRecorder recorder;
  comm::Runtime runtime{*transport, device, recorder};
  std::vector<Rank> everybody;
  for (int r = 0; r < story->ranks; ++r) everybody.emplace_back(r);
  comm::Communicator all(runtime, "data", everybody);
  auto establish = all.establish();
  co_await establish;
  plan::LevelPlan level;
  level.options.set("significance", story->significance);
  auto topology = find_topology("significant").make(all, {.level = level});
  tensor::Arena arena(*transport, DType::Float64, kTensor);
  auto values = arena.values<double>(kRange);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = begin_of(i);
  auto attending = topology->asynchronous()->serve({kRange}, &arena, nullptr);
  co_await attending;
  const int rank = transport->rank().value();
  const std::uint64_t before = transport->traffic().bytes_sent;
  for (int round = 0; round < story->rounds; ++round) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += way_of(rank, round, i);
    auto reducing = topology->reduce({3, 0, kRange, {}, round}, arena);
    const double weight = co_await reducing;
    EXPECT_EQ(weight, 1);
  }
  const auto at = static_cast<std::size_t>(rank);
  story->bytes[at] = transport->traffic().bytes_sent - before;
  story->values[at].assign(values.begin(), values.end());
  auto common = topology->stateful()->state().at(0).values->values<double>(kRange);
  story->common[at].assign(common.begin(), common.end());
  for (double outside : arena.values<double>({0, 16})) EXPECT_EQ(outside, 0);
  for (double outside : arena.values<double>({1016, 24})) EXPECT_EQ(outside, 0);
}

Story tell(int ranks, int rounds, double significance) {
  Story story{ranks, rounds, significance};
  const auto n = static_cast<std::size_t>(ranks);
  story.values.resize(n);
  story.common.resize(n);
  story.bytes.resize(n);
  test::RankBody body = [&](net::Transport& transport) { return live(&story, &transport); };
  test::run_ranks(ranks, body, {});
  return story;
}

/// What is sent and what stays is what came in: the mean over the members moves as the mean of their ways.
TEST(Significant, WhatGoesOutAndWhatStaysIsWhatCameIn) {
  for (double significance : {0.0, 0.01, 0.03, 0.1, 1e6})
    for (int ranks : {1, 2, 4}) {
      const Story story = tell(ranks, 9, significance);
      for (std::size_t i = 0; i < kRange.size; ++i) {
        double mean = 0, ways = 0;
        for (int r = 0; r < ranks; ++r) {
          mean += story.values[static_cast<std::size_t>(r)][i] / ranks;
          for (int round = 0; round < 9; ++round) ways += way_of(r, round, i) / ranks;
        }
        ASSERT_NEAR(mean, begin_of(i) + ways, 1e-14) << significance << " " << ranks << " " << i;
      }
    }
}

TEST(Significant, TheCommonWeightsAreEqualEverywhere) {
  for (int ranks : {2, 3, 5}) {
    const Story story = tell(ranks, 7, 0.02);
    for (const auto& common : story.common) EXPECT_EQ(common, story.common[0]) << ranks;
    EXPECT_NE(story.values[0], story.values[1]) << ranks;
  }
}

/// Threshold 0 is the dense exchange, bit for bit: everybody's mean way, summed in the order of the members.
TEST(Significant, WithoutAThresholdItIsDense) {
  for (int ranks : {2, 3, 4}) {
    const Story story = tell(ranks, 5, 0);
    std::vector<double> dense(kRange.size);
    for (std::size_t i = 0; i < dense.size(); ++i) {
      dense[i] = begin_of(i);
      for (int round = 0; round < 5; ++round) {
        double sum = 0;
        for (int r = 0; r < ranks; ++r) sum += (dense[i] + way_of(r, round, i)) - dense[i];
        dense[i] += sum / ranks;
      }
    }
    for (const auto& values : story.values) EXPECT_EQ(values, dense) << ranks;
  }
}

/// An entry that stays goes out when it has added up to enough, or when the threshold has come down to it.
TEST(Significant, TheThresholdFallsWithTheRootOfTheRound) {
  auto reference = [](double significance, int rounds) {
    std::vector<std::vector<double>> own(2, std::vector<double>(kRange.size));
    std::vector<double> common(kRange.size);
    for (std::size_t i = 0; i < kRange.size; ++i) {
      common[i] = own[0][i] = own[1][i] = begin_of(i);
      for (int round = 0; round < rounds; ++round) {
        double sum = 0;
        std::vector<double> stays(2);
        for (int r = 0; r < 2; ++r) {
          double& x = own[static_cast<std::size_t>(r)][i];
          x += way_of(r, round, i);
          const double way = x - common[i];
          const bool goes = std::abs(way) > significance / std::sqrt(round + 1.0) * std::abs(x);
          (goes ? sum : stays[static_cast<std::size_t>(r)]) += way;
        }
        common[i] += sum / 2;
        for (std::size_t r = 0; r < 2; ++r) own[r][i] = stays[r] + common[i];
      }
    }
    return own;
  };
  for (int rounds : {1, 2, 6}) {
    const Story story = tell(2, rounds, 0.05);
    EXPECT_EQ(story.values, reference(0.05, rounds)) << rounds;
  }
}

TEST(Significant, OnlyWhatIsSignificantTravels) {
  const double count = 8 * 3;  // of the number of entries, to each of three
  const Story all = tell(4, 1, 0), none = tell(4, 1, 1e6), some = tell(4, 1, 0.04);
  for (std::size_t r = 0; r < 4; ++r) {
    EXPECT_EQ(static_cast<double>(all.bytes[r]), 3.0 * kRange.size * sizeof(double) + count);
    EXPECT_EQ(static_cast<double>(none.bytes[r]), count);
    int entries = 0;
    for (std::size_t i = 0; i < kRange.size; ++i) {
      const double way = way_of(static_cast<int>(r), 0, i);
      entries += std::abs(way) > 0.04 * std::abs(begin_of(i) + way);
    }
    EXPECT_GT(entries, 50);
    EXPECT_LT(entries, 600);
    EXPECT_EQ(static_cast<double>(some.bytes[r]), 3.0 * entries * (4 + sizeof(double)) + count);
  }
}

TEST(Significant, PositionsAreLeftOutWhereTheyWouldCostMore) {
  EXPECT_EQ(significant_bytes(100, 0, 4), 0u);
  EXPECT_EQ(significant_bytes(100, 49, 4), 49u * 8);
  EXPECT_EQ(significant_bytes(100, 50, 4), 400u);
  EXPECT_EQ(significant_bytes(100, 100, 4), 400u);
  EXPECT_EQ(significant_bytes(0, 0, 4), 0u);
}

}  // namespace
}  // namespace taxon::exchange
