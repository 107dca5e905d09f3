#include "exchange/bucket.h"

#include <gtest/gtest.h>

namespace taxon::exchange {
namespace {

const std::vector<Tensor> kTensors = {
    {"c.bias", {10}}, {"c.weight", {10, 20}}, {"b.bias", {20}}, {"b.weight", {20, 100}}, {"a.weight", {5}}};

TEST(CutBuckets, FillsInCompletionOrderUpToTheLimit) {
  auto buckets = cut_buckets(kTensors, DType::Float32, 1000);
  ASSERT_EQ(buckets.size(), 3u);
  EXPECT_EQ(buckets[0].parameters, (std::vector<std::string>{"c.bias", "c.weight", "b.bias"}));
  EXPECT_EQ(buckets[0].bytes, 4 * 230);
  EXPECT_EQ(buckets[1].parameters, (std::vector<std::string>{"b.weight"}));  // alone larger than the limit
  EXPECT_EQ(buckets[2].parameters, (std::vector<std::string>{"a.weight"}));
}

TEST(LayOut, GivesEachTensorAnAlignedSlotInItsBucket) {
  auto buckets = cut_buckets(kTensors, DType::Float32, 1000);
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
    const Range& bucket = layout.buckets[static_cast<std::size_t>(layout.bucket_of[slot])].range;
    EXPECT_GE(place.range.begin, bucket.begin);
    EXPECT_LE(place.range.end(), bucket.end());
  }
  EXPECT_EQ(layout.buckets[0].name, "bucket 0 (c.bias .. b.bias)");
}

TEST(LayOut, RefusesBucketsOfAnotherModel) {
  auto buckets = cut_buckets(kTensors, DType::Float32, 1000);
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
