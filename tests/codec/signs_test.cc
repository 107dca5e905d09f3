// Codecs of one bit: what a sign stands for.
#include "codec/signs.h"

#include <algorithm>
#include <limits>

#include "codec/cases.h"
#include "codec/feedback.h"

namespace taxon::codec::test {
namespace {

TEST(Sign, StandsForTheMeanMagnitudeOfItsBlock) {
  const std::size_t count = 700;
  plan::Options options = options_of();
  options.set("block", 128);
  Coder coder(find_codec("sign"), options, count);
  std::vector<float> input = whole_numbers(count, 1);
  const std::vector<float> sent = coder.round_trip(input, Residual::Stay);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t first = i / 128 * 128, last = std::min(count, first + 128);
    double mean = 0;
    for (std::size_t j = first; j < last; ++j) mean += std::abs(input[j]);
    mean /= static_cast<double>(last - first);
    EXPECT_NEAR(sent[i], std::signbit(input[i]) ? -mean : mean, 1e-3 * mean) << i;
  }
}

TEST(OneBit, StandsForTheMeansOfEitherSign) {
  const std::size_t count = 700;
  plan::Options options = options_of();
  options.set("block", 128);
  Coder coder(find_codec("one_bit"), options, count);
  std::vector<float> input = whole_numbers(count, 2);
  for (std::size_t i = 256; i < 384; ++i) input[i] = std::abs(input[i]) + 1;  // a block without a negative
  const std::vector<float> sent = coder.round_trip(input, Residual::Stay);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t first = i / 128 * 128, last = std::min(count, first + 128);
    double mean = 0, of = 0;
    for (std::size_t j = first; j < last; ++j)
      if (std::signbit(input[j]) == std::signbit(input[i])) {
        mean += input[j];
        ++of;
      }
    EXPECT_NEAR(sent[i], mean / of, 1e-3 * std::abs(mean / of)) << i;
  }
}

/// Sums of the members' signs, encoded again: where that is not a tie, the majority's sign.
TEST(SignVote, IsTheMajoritysAndTiesFallEitherWay) {
  const std::size_t count = 5000;
  for (int members : {1, 2, 3, 4, 5}) {
    std::vector<float> votes(count);
    std::vector<int> ayes(count);
    for (int m = 0; m < members; ++m) {
      Coder coder(find_codec("sign_vote"), count);
      std::vector<float> input = gradient(count, static_cast<std::uint64_t>(m));
      coder.round_trip(input, Residual::Stay);
      coder.codec->decode(coder.last(), votes, m == 0 ? Into::Assign : Into::Add, coder.context);
      for (std::size_t i = 0; i < count; ++i) ayes[i] += input[i] > 0 ? 1 : -1;
    }
    Coder owner(find_codec("sign_vote"), count);
    const std::vector<float> result = owner.round_trip(votes, Residual::Stay);
    int ties = 0, up = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (ayes[i] != 0) {
        ASSERT_EQ(result[i], ayes[i] > 0 ? 1 : -1) << i;
        continue;
      }
      ++ties;
      up += result[i] > 0 ? 1 : 0;
    }
    EXPECT_NEAR(up, ties / 2.0, 3 * std::sqrt(ties) + 1e-9) << members;
  }
}

/// Signum: what votes is the sign of the member's own momentum, and nothing else is kept.
TEST(SignVote, IsOfTheMomentumThatMembersKeep) {
  const std::size_t count = 500;
  Coder coder(find_codec("sign_vote"), count);
  const Feedback feedback(*coder.codec, {.momentum = 0.5F, .masking = false});
  std::vector<float> velocity(count), expected(count), sent(count);
  for (std::uint64_t step = 0; step < 4; ++step) {
    std::vector<float> mine = gradient(count, step);
    for (std::size_t i = 0; i < count; ++i) expected[i] = 0.5F * expected[i] + mine[i];
    feedback.encode(mine, {{}, velocity}, coder.wires[0].view(), coder.context);
    coder.codec->decode(coder.last(), sent, Into::Assign, coder.context);
    EXPECT_EQ(velocity, expected);
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(sent[i], velocity[i] > 0 ? 1 : -1) << i;
  }
  std::vector<float> bad(count, std::numeric_limits<float>::infinity());
  feedback.encode(bad, {{}, velocity}, coder.wires[0].view(), coder.context);
  EXPECT_EQ(velocity, expected);
  coder.codec->decode(coder.last(), sent, Into::Assign, coder.context);
  EXPECT_TRUE(std::isnan(sent[0]));
}

}  // namespace
}  // namespace taxon::codec::test
