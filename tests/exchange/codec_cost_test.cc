// When a codec is worth its work: what the choice is made from, and how it is written down.
#include "exchange/compression/codec_cost.h"

#include <gtest/gtest.h>

#include "codec/codec.h"
#include "exchange/compression/aggregation.h"

namespace taxon::exchange {
namespace {

constexpr comm::LinkCost kLink{.latency = 100e-6, .bandwidth = 1e8, .reduce = 0};

plan::LevelPlan auto_level(const std::string& of) {
  plan::LevelPlan level;
  level.codec.name = "auto";
  level.codec.of = of;
  level.codec.options.set("density", 0.01);
  return level;
}

CodecCase weigh_of(const std::string& of, std::size_t count, const CodecTime& time, int size = 4) {
  const plan::LevelPlan level = auto_level(of);
  return estimate_codec({level, size, kLink, codec::find_codec(of)}, count, time);
}

TEST(Pays, CostsAreThoseOfTheRowsThatCarryIt) {
  const std::size_t count = 1 << 20, bytes = count * sizeof(float);
  const CodecTime time{1e-3, 2e-3};
  const CodecCase top_k = weigh_of("top_k", count, time);
  EXPECT_DOUBLE_EQ(top_k.dense,
                   row_for(net::Operation::AllReduce, 4, bytes).estimate({4, bytes, false}, kLink));
  EXPECT_DOUBLE_EQ(top_k.encode, 1e-3);
  EXPECT_DOUBLE_EQ(top_k.decode, 4 * 2e-3);  // everybody's
  const auto codec = codec::find_codec("top_k").make(auto_level("top_k").codec.options);
  const std::size_t all = 4 * codec->wire_bytes(0, count);
  EXPECT_DOUBLE_EQ(top_k.wire, row_for(net::Operation::AllGather, 4, all).estimate({4, all, false}, kLink));
  EXPECT_TRUE(top_k.pays());
}

TEST(Pays, NotWhereTheCodecIsSlowerThanTheLink) {
  const CodecTime slow{1, 1};
  EXPECT_FALSE(weigh_of("bf16", 1 << 20, slow).pays());
  EXPECT_TRUE(weigh_of("bf16", 1 << 20, {1e-4, 1e-4}).pays());
}

TEST(Pays, NotForFewValuesWhoseMessagesAreLatency) {
  for (const char* codec : {"count_sketch", "int8"}) {
    EXPECT_FALSE(weigh_of(codec, 64, {}).pays()) << codec;
    EXPECT_TRUE(weigh_of(codec, 1 << 22, {}).pays()) << codec;
  }
}

TEST(Pays, AReusedSketchCostsItsShareOfASketch) {
  plan::LevelPlan level = auto_level("count_sketch");
  level.codec.options.set("candidates", 1);
  const codec::CodecRow& row = codec::find_codec("count_sketch");
  const double each = estimate_codec({level, 16, kLink, row}, 1 << 22, {}).wire;
  level.codec.options.set("reuse", 8);
  const double eighth = estimate_codec({level, 16, kLink, row}, 1 << 22, {}).wire;
  EXPECT_LT(eighth, 0.3 * each);
}

TEST(Pays, TheChoiceStandsWhereTheAllReduceWouldAndSaysWhy) {
  plan::Plan plan;
  plan.exchange.levels = {auto_level("top_k")};
  plan.resolved.buckets = {{.parameters = {"a"}, .bytes = 4 << 20}, {.parameters = {"b"}, .bytes = 256}};
  const LevelShape shapes[] = {{4, false}};
  resolve_exchange(plan, shapes);
  auto& buckets = plan.resolved.buckets;
  const CodecLevel place{plan.exchange.levels, 0};
  for (auto& bucket : buckets) {
    EXPECT_EQ(bucket.collectives.size(), 1u);
    EXPECT_FALSE(chose_codec(bucket, place));
    record_choice(bucket, place, weigh_of("top_k", static_cast<std::size_t>(bucket.bytes) / 4, {1e-4, 1e-4}));
  }
  EXPECT_EQ(buckets[0].collectives[0], "all_reduce top_k");
  EXPECT_TRUE(chose_codec(buckets[0], place));
  EXPECT_EQ(rows_of(buckets[0], plan.exchange.levels)[0].reduce, nullptr);
  EXPECT_TRUE(buckets[0].reasons.at(0).starts_with("top_k: ")) << buckets[0].reasons[0];
  EXPECT_FALSE(chose_codec(buckets[1], place));
  EXPECT_NE(rows_of(buckets[1], plan.exchange.levels)[0].reduce, nullptr);
  EXPECT_TRUE(buckets[1].reasons.at(0).starts_with("dense: ")) << buckets[1].reasons[0];
  EXPECT_LT(bytes_sent(buckets[0], plan.exchange.levels, {.shapes = shapes}), 0.1 * (4 << 20));
  EXPECT_EQ(bytes_sent(buckets[1], plan.exchange.levels, {.shapes = shapes}), 2 * 0.75 * 256);
}

}  // namespace
}  // namespace taxon::exchange
