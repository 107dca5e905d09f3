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

}  // namespace
}  // namespace taxon::codec::test
