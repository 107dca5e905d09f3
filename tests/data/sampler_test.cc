#include "data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace taxon::data {
namespace {

constexpr std::int64_t kSizes[] = {1, 2, 7, 64, 101};
constexpr std::int64_t kBatches[] = {1, 3, 8, 64, 200};
constexpr int kWorlds[] = {1, 2, 3, 4, 5, 8, 9};

/// The whole job's batch, rank after rank.
Sampler::Batch joined(Sampler& sampler, std::int64_t consumed, int world_size) {
  Sampler::Batch whole;
  for (int rank = 0; rank < world_size; ++rank) {
    Sampler::Batch share = sampler.at(consumed, world_size, rank);
    whole.epoch = share.epoch;
    whole.size = share.size;
    whole.indices.insert(whole.indices.end(), share.indices.begin(), share.indices.end());
  }
  return whole;
}

TEST(Sampler, EachSampleIsUsedOncePerEpochWhateverTheWorldSize) {
  for (std::int64_t size : kSizes)
    for (std::int64_t batch : kBatches)
      for (int world : kWorlds) {
        Sampler sampler(3, size, batch);
        std::int64_t consumed = 0, steps = 0;
        std::vector<std::int64_t> used;
        while (consumed < size) {
          Sampler::Batch whole = joined(sampler, consumed, world);
          ASSERT_EQ(whole.epoch, 0);
          ASSERT_EQ(whole.size, std::min(batch, size - consumed));
          ASSERT_EQ(whole.size, static_cast<std::int64_t>(whole.indices.size()));
          used.insert(used.end(), whole.indices.begin(), whole.indices.end());
          consumed += whole.size;
          ++steps;
        }
        ASSERT_EQ(consumed, size) << "a batch crossed the end of the epoch";
        ASSERT_EQ(steps, sampler.steps_per_epoch());
        std::sort(used.begin(), used.end());
        std::vector<std::int64_t> all(static_cast<std::size_t>(size));
        std::iota(all.begin(), all.end(), 0);
        ASSERT_EQ(used, all);
      }
}

TEST(Sampler, TheJobsBatchDoesNotDependOnTheWorldSize) {
  for (int world : kWorlds) {
    Sampler one(5, 101, 16), many(5, 101, 16);
    for (std::int64_t consumed = 0; consumed < 303; consumed += one.at(consumed, 1, 0).size)
      ASSERT_EQ(joined(many, consumed, world).indices, one.at(consumed, 1, 0).indices);
  }
}

TEST(Sampler, SharesDifferByOneAndMayBeEmpty) {
  Sampler sampler(1, 10, 8);
  for (int world : kWorlds)
    for (std::int64_t consumed : {0, 8}) {  // 8 samples, then the short batch of 2
      std::int64_t size = consumed == 0 ? 8 : 2;
      for (int rank = 0; rank < world; ++rank) {
        auto share = static_cast<std::int64_t>(sampler.at(consumed, world, rank).indices.size());
        EXPECT_GE(share, size / world);
        EXPECT_LE(share, (size + world - 1) / world);
      }
    }
  EXPECT_TRUE(sampler.at(8, 3, 2).indices.empty());
  EXPECT_EQ(sampler.at(8, 3, 2).size, 2);
}

TEST(Sampler, ARunResumesWithAnotherWorldSizeFromThePositionAlone) {
  Sampler undisturbed(9, 50, 8);
  std::vector<std::int64_t> expected, resumed;
  std::int64_t consumed = 0;
  for (int step = 0; step < 20; ++step) {
    Sampler::Batch whole = joined(undisturbed, consumed, 4);
    expected.insert(expected.end(), whole.indices.begin(), whole.indices.end());
    consumed += whole.size;
  }
  consumed = 0;
  for (int step = 0; step < 20; ++step) {
    Sampler fresh(9, 50, 8);  // nothing survives but the number of samples
    Sampler::Batch whole = joined(fresh, consumed, step < 9 ? 4 : 3);
    resumed.insert(resumed.end(), whole.indices.begin(), whole.indices.end());
    consumed += whole.size;
  }
  EXPECT_EQ(resumed, expected);
}

TEST(Sampler, EpochsAndSeedsHaveOrdersOfTheirOwn) {
  Sampler a(1, 64, 64), b(2, 64, 64);
  auto first = a.at(0, 1, 0), second = a.at(64, 1, 0);
  EXPECT_EQ(second.epoch, 1);
  EXPECT_NE(first.indices, second.indices);
  EXPECT_NE(first.indices, b.at(0, 1, 0).indices);
  EXPECT_EQ(a.at(0, 1, 0).indices, first.indices);
}

// Every position of a sample is equally likely: chi-square over 2,000 orders of 6 samples, 35 cells of which
// 25 are free; 52.6 is exceeded once in a thousand.
TEST(Sampler, OrdersAreUniform) {
  constexpr int kEpochs = 2000, kSize = 6;
  Sampler sampler(4, kSize, kSize);
  std::vector<double> counts(kSize * kSize);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    auto indices = sampler.at(static_cast<std::int64_t>(epoch) * kSize, 1, 0).indices;
    for (std::size_t i = 0; i < kSize; ++i) ++counts[i * kSize + static_cast<std::size_t>(indices[i])];
  }
  double expected = static_cast<double>(kEpochs) / kSize, chi = 0;
  for (double count : counts) chi += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chi, 52.6);
}

}  // namespace
}  // namespace taxon::data
