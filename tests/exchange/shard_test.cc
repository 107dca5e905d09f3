#include "exchange/layout/shard.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"

namespace taxon::exchange {
namespace {

plan::ExchangePlan sizes(std::int64_t bucket_bytes, std::int64_t slice_bytes) {
  return {.bucket_bytes = bucket_bytes, .slice_bytes = slice_bytes};
}

/// A model of `segments` segments with a few tensors each, completed from the last to the first, with some
/// that come late, as parameters without a gradient do.
Layout random_layout(Rng& rng, int segments) {
  std::vector<Tensor> tensors, late;
  for (int segment = segments - 1; segment >= 0; --segment)
    for (std::uint64_t i = 0, n = 1 + rng.below(3); i < n; ++i) {
      Tensor tensor{"t" + std::to_string(segment) + "." + std::to_string(i),
                    {static_cast<std::int64_t>(1 + rng.below(2000))},
                    segment};
      (rng.below(12) == 0 ? late : tensors).push_back(tensor);
    }
  tensors.insert(tensors.end(), late.begin(), late.end());
  auto plan = sizes(static_cast<std::int64_t>(400 + rng.below(4000)),
                    static_cast<std::int64_t>(64 + rng.below(8000)));
  return lay_out(tensors, cut_buckets(tensors, DType::Float32, plan), DType::Float32);
}

bool share_memory(const Bucket& a, const Bucket& b) {
  return a.gradients.begin < b.gradients.end() && b.gradients.begin < a.gradients.end();
}

TEST(Ring, WhoTakesAPlaceWaitsForAllWhoHadItAndTheyCanLeave) {
  Rng rng(11, "ring");
  for (int trial = 0; trial < 300; ++trial) {
    const int segments = static_cast<int>(1 + rng.below(12));
    Layout layout = random_layout(rng, segments);
    lay_out_ring(layout, segments, static_cast<int>(1 + rng.below(4)));
    for (std::size_t b = 0; b < layout.buckets.size(); ++b) {
      const Bucket& bucket = layout.buckets[b];
      EXPECT_EQ(bucket.gradients.size, bucket.range.size);
      EXPECT_LE(bucket.gradients.end(), layout.gradients);
      EXPECT_EQ(bucket.gradients.begin % 16, 0u);
      for (std::size_t a = 0; a < b; ++a) {
        const Bucket& before = layout.buckets[a];
        bool waits =
            std::find(bucket.after.begin(), bucket.after.end(), static_cast<int>(a)) != bucket.after.end();
        if (!share_memory(before, bucket)) continue;
        EXPECT_TRUE(waits);
        // The earlier one is complete before the backward pass comes to the later one's first segment.
        EXPECT_GT(before.segments.front(), bucket.segments.back());
      }
    }
  }
}

TEST(Ring, PartsOfOneParameterLieOneAfterTheOther) {
  const std::vector<Tensor> tensors = {{"c", {100}, 2}, {"b", {5000}, 1}, {"a", {100}, 0}};
  Layout layout = lay_out(tensors, cut_buckets(tensors, DType::Float32, sizes(400, 4096)), DType::Float32);
  lay_out_ring(layout, 3, 1);
  ASSERT_EQ(layout.buckets.size(), 7u);
  for (std::size_t b = 2; b < 6; ++b)
    EXPECT_EQ(layout.buckets[b].gradients.begin, layout.buckets[b - 1].gradients.end());
}

TEST(Ring, OfADeepModelIsSmall) {
  std::vector<Tensor> tensors;
  for (int segment = 49; segment >= 0; --segment)
    tensors.push_back({"w" + std::to_string(segment), {1000}, segment});
  Layout layout = lay_out(tensors, cut_buckets(tensors, DType::Float32, sizes(4000, 4000)), DType::Float32);
  const std::size_t whole = layout.gradients;
  lay_out_ring(layout, 50, 2);
  EXPECT_LT(layout.gradients * 15, whole);
}

TEST(Ring, OneSegmentNeedsEverythingAtOnce) {
  std::vector<Tensor> tensors = {{"b", {1000}, 0}, {"a", {1000}, 0}};
  Layout layout = lay_out(tensors, cut_buckets(tensors, DType::Float32, sizes(4000, 4000)), DType::Float32);
  const std::size_t whole = layout.gradients;
  lay_out_ring(layout, 1, 4);
  EXPECT_GE(layout.gradients, whole);
  for (const Bucket& bucket : layout.buckets) EXPECT_TRUE(bucket.after.empty());
}

TEST(OwnedValues, LeavesOutThePadding) {
  const std::vector<Tensor> tensors = {{"b", {10}, 0}, {"a", {20}, 0}};
  Layout layout = lay_out(tensors, cut_buckets(tensors, DType::Float32, sizes(4000, 4000)), DType::Float32);
  Bucket bucket = layout.buckets.front();
  bucket.owned = {4, 20};
  EXPECT_EQ(owned_values(bucket, layout.arena), (std::vector<Range>{{4, 6}, {16, 8}}));
}

}  // namespace
}  // namespace taxon::exchange
