#include "exchange/layout/bucket.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace taxon::exchange {
namespace {

const std::vector<Tensor> kTensors = {
    {"c.bias", {10}}, {"c.weight", {10, 20}}, {"b.bias", {20}}, {"b.weight", {20, 100}}, {"a.weight", {5}}};

plan::ExchangePlan whole(std::int64_t bucket_bytes) {
  return {.bucket_bytes = bucket_bytes, .slice_bytes = 1 << 20};
}

TEST(CutBuckets, FillsInCompletionOrderUpToTheLimit) {
  auto buckets = cut_buckets(kTensors, DType::Float32, whole(1000));
  ASSERT_EQ(buckets.size(), 3u);
  EXPECT_EQ(buckets[0].parameters, (std::vector<std::string>{"c.bias", "c.weight", "b.bias"}));
  EXPECT_EQ(buckets[0].bytes, 4 * 230);
  EXPECT_EQ(buckets[1].parameters, (std::vector<std::string>{"b.weight"}));  // alone larger than the limit
  EXPECT_EQ(buckets[2].parameters, (std::vector<std::string>{"a.weight"}));
}

TEST(LayOut, GivesEachTensorAnAlignedSlotInItsBucket) {
  auto buckets = cut_buckets(kTensors, DType::Float32, whole(1000));
  // The model lists its parameters in another order than the backward pass completes them.
  std::vector<Tensor> model(kTensors.rbegin(), kTensors.rend());
  Layout layout = lay_out(model, buckets, DType::Float32);
  ASSERT_EQ(layout.buckets.size(), 3u);
  std::size_t next = 0;
  for (const Bucket& bucket : layout.buckets) {
    EXPECT_EQ(bucket.range.begin, next);
    next = bucket.range.end();
  }
  EXPECT_EQ(next, layout.arena.size());
  for (std::size_t slot = 0; slot < layout.tensors.size(); ++slot) {
    const tensor::Slot& place = layout.arena.slots()[slot];
    EXPECT_EQ(place.name, model[static_cast<std::size_t>(layout.tensors[slot])].name);
    EXPECT_EQ(place.range.begin % 16, 0u);
    auto bucket = std::find_if(layout.buckets.begin(), layout.buckets.end(), [&](const Bucket& b) {
      return b.range.begin <= place.range.begin && place.range.end() <= b.range.end();
    });
    ASSERT_NE(bucket, layout.buckets.end());
    EXPECT_NE(bucket->name.find(place.name[0]), std::string::npos) << bucket->name;
  }
  EXPECT_EQ(layout.buckets[0].name, "bucket 0 (c.bias .. b.bias)");
}

std::vector<std::vector<std::string>> names(const std::vector<plan::BucketPlan>& buckets) {
  std::vector<std::vector<std::string>> all;
  for (const plan::BucketPlan& bucket : buckets) all.push_back(bucket.parameters);
  return all;
}

TEST(CutBuckets, OfAGlobalCodecTheModelIsOne) {
  plan::ExchangePlan plan = {.bucket_bytes = 1000, .slice_bytes = 4000};
  plan.levels = {{.codec = {.name = "count_sketch", .global = true}}};
  EXPECT_EQ(
      names(cut_buckets(kTensors, DType::Float32, plan)),
      (std::vector<std::vector<std::string>>{{"c.bias", "c.weight", "b.bias", "b.weight", "a.weight"}}));
  plan.levels[0].codec.dense_below = 100;
  EXPECT_EQ(
      names(cut_buckets(kTensors, DType::Float32, plan)),
      (std::vector<std::vector<std::string>>{{"c.weight", "b.weight"}, {"c.bias", "b.bias", "a.weight"}}));
}

TEST(CutBuckets, SmallTensorsOfACodecHaveTheirOwnSoThatTheyStayDense) {
  plan::ExchangePlan plan = whole(1 << 20);
  plan.levels = {{.codec = {.name = "top_k", .dense_below = 100}}};
  EXPECT_EQ(
      names(cut_buckets(kTensors, DType::Float32, plan)),
      (std::vector<std::vector<std::string>>{{"c.weight", "b.weight"}, {"c.bias", "b.bias", "a.weight"}}));
  plan.levels[0].codec.dense_below = 50;  // places of 16, 32 and 16 elements
  EXPECT_EQ(
      names(cut_buckets(kTensors, DType::Float32, plan)),
      (std::vector<std::vector<std::string>>{{"c.bias", "b.bias"}, {"c.weight", "b.weight"}, {"a.weight"}}));
  const Layout layout = lay_out(kTensors, cut_buckets(kTensors, DType::Float32, plan), DType::Float32);
  for (const Bucket& bucket : layout.buckets)
    EXPECT_EQ(bucket.range.size < 50, bucket.name.find("weight .. b.weight") == std::string::npos)
        << bucket.name;
  plan.levels[0].codec.name = "none";
  EXPECT_EQ(cut_buckets(kTensors, DType::Float32, plan).size(), 1u);
}

TEST(CutBuckets, CutsSmallerForDedicatedServersSoThatBothWaysOfTheirLinksAreUsed) {
  const std::vector<Tensor> tensors = {{"c.weight", {1000, 800}}, {"b.bias", {800}}, {"a.weight", {100}}};
  plan::Plan plan;
  EXPECT_EQ(cut_buckets(tensors, plan).size(), 1u);
  plan.mesh.servers = 1;
  auto buckets = cut_buckets(tensors, plan);
  EXPECT_GE(buckets.size(), 24u);
  for (const plan::BucketPlan& bucket : buckets) EXPECT_LE(bucket.bytes, 3203600 / 24);
  plan.exchange.slice_bytes = 4096;  // the plan's own limits stay
  for (const plan::BucketPlan& bucket : cut_buckets(tensors, plan)) EXPECT_LE(bucket.bytes, 4096);
  plan.exchange.slice_bytes = 4 << 20;
  EXPECT_EQ(cut_buckets({{"small", {16384}}}, plan).size(), 1u);  // not below 64 KiB
}

TEST(CutBuckets, CutsALargeTensorIntoPartsOfWholeLines) {
  const plan::ExchangePlan plan{.bucket_bytes = 1000, .slice_bytes = 3000};
  auto buckets = cut_buckets(kTensors, DType::Float32, plan);
  ASSERT_EQ(buckets.size(), 5u);  // c.*, b.bias | b.weight in three | a.weight
  for (int i = 0; i < 3; ++i) {
    const plan::BucketPlan& bucket = buckets[static_cast<std::size_t>(1 + i)];
    EXPECT_EQ(bucket.parameters, (std::vector<std::string>{"b.weight"}));
    EXPECT_EQ(bucket.part, i);
    EXPECT_EQ(bucket.parts, 3);
    EXPECT_LE(bucket.bytes, 3000);
  }
  std::vector<Tensor> tensors = kTensors;
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].segment = static_cast<int>(tensors.size() - i);
  Layout layout = lay_out(tensors, buckets, DType::Float32);
  ASSERT_EQ(layout.buckets.size(), 5u);
  std::size_t next = 0;
  for (const Bucket& bucket : layout.buckets) {
    EXPECT_EQ(bucket.range.begin, next);
    EXPECT_EQ(bucket.range.begin % 16, 0u);
    EXPECT_GT(bucket.range.size, 0u);
    next = bucket.range.end();
  }
  EXPECT_EQ(next, layout.arena.size());
  EXPECT_EQ(layout.buckets[2].name, "bucket 2 (b.weight, part 2 of 3)");
  EXPECT_EQ(layout.buckets[0].segments, (std::vector<int>{3, 4, 5}));
  EXPECT_EQ(layout.buckets[2].segments, (std::vector<int>{2}));
}

TEST(LayOut, RefusesPartsThatAreMissingOrOutOfOrder) {
  const plan::ExchangePlan plan{.bucket_bytes = 1000, .slice_bytes = 3000};
  const auto buckets = cut_buckets(kTensors, DType::Float32, plan);
  auto missing = buckets, swapped = buckets, last = buckets;
  missing.erase(missing.begin() + 2);
  std::swap(swapped[1], swapped[2]);
  last.erase(last.begin() + 3, last.end());
  std::vector<Tensor> fewer(kTensors.begin(), kTensors.end() - 1);
  EXPECT_THROW(lay_out(kTensors, missing, DType::Float32), Error);
  EXPECT_THROW(lay_out(kTensors, swapped, DType::Float32), Error);
  EXPECT_THROW(lay_out(fewer, last, DType::Float32), Error);
}

TEST(LayOut, RefusesBucketsOfAnotherModel) {
  auto buckets = cut_buckets(kTensors, DType::Float32, whole(1000));
  std::vector<Tensor> fewer(kTensors.begin(), kTensors.end() - 1);
  EXPECT_THROW(lay_out(fewer, buckets, DType::Float32), Error);
  auto more = kTensors;
  more.push_back({"d", {1}});
  try {
    lay_out(more, buckets, DType::Float32);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Mismatch);
    EXPECT_EQ(error.context().tensor, "d");
  }
}

}  // namespace
}  // namespace taxon::exchange
