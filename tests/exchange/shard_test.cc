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

/// Of each of a step's passes the segments whose parameters are there, told as whoever passes asks for them.
std::vector<std::vector<int>> there(int segments, int ahead) {
  std::vector<int> order;
  for (int s = 0; s < segments; ++s) order.push_back(s);
  for (int s = segments - 1; s-- > 0;) order.push_back(s);
  std::vector<std::vector<int>> all;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t end = std::min(order.size(), i + static_cast<std::size_t>(ahead) + 1);
    all.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(i),
                     order.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return all;
}

bool is_there(const Bucket& bucket, const std::vector<int>& segments) {
  return std::any_of(segments.begin(), segments.end(), [&](int segment) {
    return std::find(bucket.segments.begin(), bucket.segments.end(), segment) != bucket.segments.end();
  });
}

/// One tensor or several in each segment, cut where segments end; the first is read by the last one too.
Layout layout_by_segments(Rng& rng, int segments) {
  std::vector<Tensor> tensors;
  for (int segment = segments - 1; segment >= 0; --segment)
    for (std::uint64_t i = 0, n = 1 + rng.below(3); i < n; ++i)
      tensors.push_back({"t" + std::to_string(segment) + "." + std::to_string(i),
                         {static_cast<std::int64_t>(1 + rng.below(2000))},
                         segment,
                         false,
                         0,
                         segment});
  if (segments > 1) {
    tensors.push_back({"tied", {300}, 0, false, 0, segments});
    tensors.back().borrowers = {segments - 1};
  }
  auto plan = sizes(static_cast<std::int64_t>(400 + rng.below(4000)),
                    static_cast<std::int64_t>(64 + rng.below(8000)));
  return lay_out(tensors, cut_buckets(tensors, DType::Float32, plan), DType::Float32);
}

TEST(Parts, WhatIsThereTogetherSharesNoMemory) {
  Rng rng(12, "parts");
  for (int trial = 0; trial < 200; ++trial) {
    const int segments = static_cast<int>(1 + rng.below(10)), ahead = static_cast<int>(rng.below(4));
    Layout layout = layout_by_segments(rng, segments);
    keep_parts(layout, segments, ahead);
    for (const Bucket& a : layout.buckets) {
      EXPECT_EQ(a.gathered.size, a.range.size);
      EXPECT_LE(a.gathered.end(), layout.gathered);
      EXPECT_EQ(a.gathered.begin % 16, 0u);
      for (const Bucket& b : layout.buckets) {
        if (a.id.value() >= b.id.value()) continue;
        if (a.gathered.end() <= b.gathered.begin || b.gathered.end() <= a.gathered.begin) continue;
        for (const auto& passed : there(segments, ahead))
          EXPECT_FALSE(is_there(a, passed) && is_there(b, passed)) << a.name << " and " << b.name;
      }
    }
  }
}

TEST(Parts, AreGatheredWheneverTheyWereNotThere) {
  Rng rng(13, "gathers");
  for (int trial = 0; trial < 200; ++trial) {
    const int segments = static_cast<int>(1 + rng.below(10)), ahead = static_cast<int>(rng.below(4));
    for (const Bucket& bucket : layout_by_segments(rng, segments).buckets) {
      int gathers = 0;
      bool was_there = false;
      for (const auto& passed : there(segments, ahead)) {
        gathers += !was_there && is_there(bucket, passed);
        was_there = is_there(bucket, passed);
      }
      EXPECT_EQ(gathers_per_step(bucket, segments, ahead), gathers) << segments << " " << ahead;
    }
  }
}

TEST(Parts, OfADeepModelNeedLittleMemory) {
  std::vector<Tensor> tensors;
  for (int segment = 49; segment >= 0; --segment)
    tensors.push_back({"w" + std::to_string(segment), {960}, segment, false, 0, segment});
  Layout layout = lay_out(tensors, cut_buckets(tensors, DType::Float32, sizes(4000, 4000)), DType::Float32);
  keep_parts(layout, 50, 1);
  EXPECT_EQ(layout.gathered, 2u * 960);
  for (const Bucket& bucket : layout.buckets)
    EXPECT_EQ(gathers_per_step(bucket, 50, 1), bucket.segments.front() < 48 ? 2 : 1);
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
