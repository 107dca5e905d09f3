// Codecs of a fixed threshold.
#include <algorithm>
#include <numeric>

#include "codec/cases.h"

namespace taxon::codec::test {
namespace {

float cut(float value, float threshold) {
  return value >= threshold ? threshold : value <= -threshold ? -threshold : 0;
}

TEST(TwoBit, SendsTheThresholdOfWhatReachesIt) {
  for (std::size_t count : {1UL, 64UL, 1000UL}) {
    plan::Options options = options_of();
    options.set("threshold", 0.25);
    Coder coder(find_codec("two_bit"), options, count);
    std::vector<float> input = gradient(count, 1);
    input[0] = 0.25F;
    input[count / 2] = -0.25F;
    const std::vector<float> sent = coder.round_trip(input, Residual::Stay);
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(sent[i], cut(input[i], 0.25F)) << i;
  }
}

TEST(Threshold, SendsTheThresholdOfWhatReachesItWhileThereIsRoom) {
  const std::size_t count = 20000;
  for (double density : {0.001, 0.01, 0.2, 1.0}) {
    plan::Options options = options_of();
    options.set("threshold", 2);
    options.set("density", density);
    Coder coder(find_codec("threshold"), options, count);
    std::vector<float> input = gradient(count, 2);
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return std::abs(input[a]) > std::abs(input[b]); });
    std::vector<float> expected(count);
    const auto room = static_cast<std::size_t>(density * static_cast<double>(count));
    for (std::size_t i = 0; i < room; ++i) expected[order[i]] = cut(input[order[i]], 2);
    EXPECT_EQ(coder.round_trip(input, Residual::Stay), expected) << density;
  }
}

TEST(Threshold, KeepsWhatTheThresholdLacks) {
  const std::size_t count = 300;
  plan::Options options = options_of();
  options.set("threshold", 0.5);
  options.set("density", 1);
  Coder coder(find_codec("threshold"), options, count);
  std::vector<float> memory(count, 1.25F), total(count);
  const float taken[] = {0.5F, 0.5F, 0, 0};
  for (float step : taken) {
    const std::vector<float> sent = coder.round_trip(memory, Residual::Keep);
    EXPECT_EQ(sent, std::vector<float>(count, step));
    for (std::size_t i = 0; i < count; ++i) total[i] += sent[i];
  }
  EXPECT_EQ(total, std::vector<float>(count, 1.0F));
  EXPECT_EQ(memory, std::vector<float>(count, 0.25F));
}

/// Of so many values as reach it, with the sign of what they are; `sent` has nothing else.
struct Sent {
  float threshold = 0;
  std::size_t values = 0;
};
Sent sent_of(const std::vector<float>& sent) {
  Sent found;
  for (float value : sent) {
    if (value == 0) continue;
    EXPECT_TRUE(found.values == 0 || std::abs(value) == found.threshold);
    found = {std::abs(value), found.values + 1};
  }
  return found;
}

plan::Options adaptive_options() {
  plan::Options options = options_of();
  options.set("density", 0.1);
  options.set("least", 0.05);
  options.set("threshold", 1);
  options.set("change", 0.5);
  return options;
}

/// So many ones of 200, of which 20 fit a wire and fewer than 10 are few.
std::vector<float> ones(std::size_t number, float size) {
  std::vector<float> values(200);
  std::fill_n(values.begin(), number, size);
  return values;
}

TEST(AdaptiveThreshold, RisesWhileItsWireIsFullAndFallsWhileFewReachIt) {
  Coder coder(find_codec("adaptive_threshold"), adaptive_options(), 200);
  auto send = [&](std::size_t number, float size) {
    std::vector<float> values = ones(number, size);
    return sent_of(coder.round_trip(values, Residual::Stay));
  };
  const struct {
    std::size_t reach, sent;
    float threshold;
  } steps[] = {{15, 15, 1}, {15, 15, 1}, {200, 20, 1}, {20, 20, 2}, {10, 10, 4},
               {9, 9, 4},   {19, 19, 2}, {1, 1, 2},    {1, 1, 1},   {12, 12, 0.5}};
  for (const auto& step : steps) {
    const Sent sent = send(step.reach, 100);
    EXPECT_EQ(sent.values, step.sent);
    EXPECT_EQ(sent.threshold, step.threshold);
  }
  EXPECT_EQ(send(200, 0.4F).values, 0U);       // below 0.5: none
  EXPECT_EQ(send(15, 0.4F).threshold, 0.25F);  // so it fell
}

/// What a member sends next follows from all wires, so all have the same threshold.
TEST(AdaptiveThreshold, IsOneForAllMembers) {
  const CodecRow& row = find_codec("adaptive_threshold");
  Coder few(row, adaptive_options(), 200), many(row, adaptive_options(), 200);
  auto exchange = [&](std::size_t of_few, std::size_t of_many) {
    std::vector<float> a = ones(of_few, 100), b = ones(of_many, -100), sum(200);
    few.codec->encode(0, a, few.wires[0].view(), Residual::Stay, few.context);
    many.codec->encode(0, b, many.wires[0].view(), Residual::Stay, many.context);
    for (Coder* reader : {&few, &many})
      for (Coder* writer : {&few, &many})
        reader->codec->decode(writer->last(), sum, Into::Assign, reader->context);
    EXPECT_EQ(few.lasting, many.lasting);
    return sent_of(sum).threshold;
  };
  EXPECT_EQ(exchange(2, 20), 1);  // 11 in the mean: neither few nor too many
  EXPECT_EQ(exchange(2, 4), 1);   // few
  EXPECT_EQ(exchange(20, 20), 0.5F);
  EXPECT_EQ(exchange(1, 15), 1);
  EXPECT_EQ(exchange(1, 1), 0.5F);
}

/// What lies between tensors is in no checkpoint.
TEST(AdaptiveThreshold, IsKeptInTensors) {
  const std::vector<Piece> tensors = {{{0, 2}}, {{16, 184}}};
  Coder coder(find_codec("adaptive_threshold"), adaptive_options(), tensors);
  for (float threshold : {1.0F, 0.5F, 0.25F}) {
    std::vector<float> values(200);
    values[20] = 100;
    EXPECT_EQ(sent_of(coder.round_trip(values, Residual::Stay)).threshold, threshold);
    std::fill(coder.lasting.begin() + 2, coder.lasting.begin() + 16, 0.0F);
  }
}

}  // namespace
}  // namespace taxon::codec::test
