// What every row of the table promises.

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "base/error.h"
#include "codec/cases.h"
#include "codec/wire.h"

namespace taxon::codec::test {
namespace {

constexpr std::size_t kCounts[] = {0, 1, 2, 15, 16, 63, 64, 65, 255, 256, 257, 1000, 20011};

std::vector<CodecRow> rows_where(bool (*holds)(const CodecRow&)) {
  std::vector<CodecRow> rows;
  std::copy_if(codec_table().begin(), codec_table().end(), std::back_inserter(rows), holds);
  return rows;
}
bool keeps_zeros(const CodecRow& row) { return row.make(options_of())->keeps_zeros(); }
bool is_linear(const CodecRow& row) { return row.make(options_of())->rounds()[0].algebra == Algebra::Linear; }

class Laws : public testing::TestWithParam<CodecRow> {};

/// What a codec may be off by, where the block's largest magnitude is `scale`.
float most_error(const CodecRow& row, float value, float scale) {
  if (row.step) return 1.001F * row.step(value, scale) + scale * 0x1p-125F;
  return row.largest_error ? row.largest_error(value, scale) : 0;
}

/// Of a group of one, so that what is delivered is what was sent.
TEST_P(Laws, WhatIsSentAndWhatRestsAreTheInput) {
  for (std::size_t count : kCounts) {
    Coder coder(GetParam(), count);
    const bool at_once = coder.codec->residual_timing() != ResidualTiming::Delivered;
    const std::vector<float> input = gradient(count, count);
    std::vector<float> rest = input;
    const std::vector<float> sent = coder.round_trip(rest, at_once ? Residual::Keep : Residual::Stay);
    if (!at_once) coder.codec->settle(coder.last(), rest, coder.context);
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_NEAR(sent[i] + rest[i], input[i], 1e-6F * (std::abs(sent[i]) + std::abs(input[i])))
          << i << " of " << count;
  }
}

TEST_P(Laws, WhatIsSentIsNear) {
  const bool entries = GetParam().sends_entries;
  for (std::size_t count : kCounts) {
    Coder coder(GetParam(), count);
    std::vector<float> input = gradient(count, count + 1);
    const std::vector<float> before = input;
    const std::vector<float> sent = coder.round_trip(input, Residual::Stay);
    EXPECT_EQ(bits_of(input), bits_of(before));
    for (std::size_t i = 0; i < count; ++i) {
      if (entries && sent[i] == 0) continue;
      float scale = 0;
      for (std::size_t j = i / 256 * 256; j < std::min(count, i / 256 * 256 + 256); ++j)
        scale = std::max(scale, std::abs(input[j]));
      ASSERT_LE(std::abs(sent[i] - input[i]), most_error(GetParam(), input[i], scale))
          << i << " of " << count;
    }
  }
}

/// What lies between the tensors of a bucket is zero, and must stay so.
class ZeroKeepers : public Laws {};

TEST_P(ZeroKeepers, ZerosStayZeros) {
  const std::size_t count = 5000;
  Coder coder(GetParam(), count);
  std::vector<float> input = gradient(count, 2);
  for (std::size_t i = 0; i < count; i += 3) input[i] = 0;
  const std::vector<float> sent = coder.round_trip(input, Residual::Stay);
  for (std::size_t i = 0; i < count; i += 3) ASSERT_EQ(sent[i], 0) << i;
}

TEST_P(Laws, WiresHaveTheDeclaredSizeAndNothingIsWrittenBehind) {
  for (std::size_t count : kCounts) {
    Coder coder(GetParam(), count);
    Bytes scratch(coder.codec->scratch_bytes(coder.extent()), 0xBB);
    coder.context.scratch = scratch.view();
    std::vector<float> input = gradient(count, 5);
    coder.round_trip(input, Residual::Stay);
    EXPECT_EQ(scratch.behind(), 0xBB) << count;
    for (const Bytes& wire : coder.wires) EXPECT_EQ(wire.behind(), 0xAA) << count;
    // Every byte of it is written: equal inputs give equal wires, whatever was there before.
    Coder other(GetParam(), count);
    for (Bytes& wire : other.wires) std::memset(wire.view().data(), 0x11, wire.view().size());
    other.round_trip(input, Residual::Stay);
    for (std::size_t r = 0; r < coder.wires.size(); ++r)
      EXPECT_EQ(bytes_of(coder.wires[r].view()), bytes_of(other.wires[r].view())) << count;
  }
}

TEST_P(Laws, EveryPathGivesTheSameBits) {
  const Residual rest = Coder(GetParam(), 1).codec->residual_timing() != ResidualTiming::Delivered
                            ? Residual::Keep
                            : Residual::Stay;
  for (std::size_t count : kCounts) {
    std::vector<float> input = gradient(count, 9);
    // Also what rounds badly: zeros of both signs, denormals, ties and what a half can't hold.
    const float odd[] = {0.0F, -0.0F, 1e-42F, -1e-40F, 1.00390625F, 3e38F, -1e5F};
    for (std::size_t i = 0; i < std::size(odd) && 3 * i < count; ++i) input[3 * i] = odd[i];
    Coder reference(GetParam(), count, Isa::Portable);
    std::vector<float> rest_here = input;
    const std::vector<float> sent = reference.round_trip(rest_here, rest);
    for (Isa path : isa_paths()) {
      SCOPED_TRACE(testing::Message() << name_of(path) << ", " << count);
      Coder coder(GetParam(), count, path);
      std::vector<float> rest_there = input;
      EXPECT_EQ(bits_of(coder.round_trip(rest_there, rest)), bits_of(sent));
      EXPECT_EQ(bits_of(rest_there), bits_of(rest_here));
      for (std::size_t r = 0; r < coder.wires.size(); ++r)
        EXPECT_EQ(bytes_of(coder.wires[r].view()), bytes_of(reference.wires[r].view()));
      std::vector<float> sum = input, sum_there = input;
      reference.codec->decode(reference.last(), sum, Into::Add, reference.context);
      coder.codec->decode(coder.last(), sum_there, Into::Add, coder.context);
      EXPECT_EQ(bits_of(sum_there), bits_of(sum));
    }
  }
}

TEST_P(Laws, DecodingAddsOrAssigns) {
  const std::size_t count = 1000;
  Coder coder(GetParam(), count);
  std::vector<float> input = whole_numbers(count, 3);
  const std::vector<float> sent = coder.round_trip(input, Residual::Stay);
  std::vector<float> sum(count, 7);
  coder.codec->decode(coder.last(), sum, Into::Add, coder.context);
  for (std::size_t i = 0; i < count; ++i) EXPECT_FLOAT_EQ(sum[i], sent[i] + 7);
}

/// As they were, but for one rounding on the way there and one on the way back.
void expect_near_bits(const std::vector<std::uint32_t>& now, const std::vector<std::uint32_t>& before) {
  for (std::size_t i = 0; i < now.size(); ++i) {
    const float a = std::bit_cast<float>(now[i]), b = std::bit_cast<float>(before[i]);
    ASSERT_TRUE(now[i] == before[i] || std::abs(a - b) <= 1e-5F + 1e-5F * std::abs(b)) << i;
  }
}

TEST_P(Laws, WhatIsNotFiniteDecodesToNothingElseAndChangesNothing) {
  for (float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::quiet_NaN()})
    for (std::size_t count : {1, 100, 20011}) {
      Coder coder(GetParam(), count);
      std::vector<float> input = gradient(count, 4);
      input[count / 2] = bad;
      const auto before = bits_of(input);
      const Residual rest =
          coder.codec->residual_timing() != ResidualTiming::Delivered ? Residual::Keep : Residual::Stay;
      EXPECT_FALSE(coder.codec->encode(0, input, coder.wires[0].view(), rest, coder.context));
      expect_near_bits(bits_of(input), before);
      for (float value : coder.round_trip(input, rest)) ASSERT_TRUE(std::isnan(value));
      expect_near_bits(bits_of(input), before);
    }
}

/// Wires with a head: those that are more than plain numbers.
class SealedWires : public Laws {};

TEST_P(SealedWires, AreRefusedWhenDamaged) {
  const std::size_t count = 777;
  Coder coder(GetParam(), count);
  std::vector<float> input = gradient(count, 6), decoded(count);
  coder.round_trip(input, Residual::Stay);
  const auto whole = bytes_of(coder.last());
  auto decode = [&](std::size_t size) {
    coder.codec->decode(coder.last().slice(0, size), decoded, Into::Add, coder.context);
  };
  decode(whole.size());
  for (std::size_t size = 0; size < whole.size(); size += 1 + size / 16)
    EXPECT_THROW(decode(size), Error) << size;
  Rng rng(1, "flips");
  auto* data = reinterpret_cast<std::uint8_t*>(coder.wires.back().view().data());
  for (int flip = 0; flip < 300; ++flip) {
    const std::size_t bit = flip < 256 ? static_cast<std::size_t>(flip) : rng.below(8 * whole.size());
    data[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
    EXPECT_THROW(decode(whole.size()), Error) << "bit " << bit;
    data[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
  }
  std::vector<float> other(count + 1);
  EXPECT_THROW(coder.codec->decode(coder.last(), other, Into::Add, coder.context), Error);
}

/// Whoever can compute a checksum still can't make a decoder write where it should not.
TEST_P(SealedWires, WriteNothingOutsideWhenForged) {
  const std::size_t count = 777;
  Coder coder(GetParam(), count);
  std::vector<float> input = gradient(count, 6);
  coder.round_trip(input, Residual::Stay);
  Head head;
  std::memcpy(&head, coder.last().data(), sizeof(head));
  Rng rng(2, "forgery");
  View wire = coder.wires.back().view();
  for (int forgery = 0; forgery < 200; ++forgery) {
    for (std::byte& byte : as_span<std::byte>(body_of(wire))) byte = static_cast<std::byte>(rng());
    seal(wire, head);
    std::vector<float> guarded(count + 2000, 5.0F);
    try {
      coder.codec->decode(wire, std::span(guarded).subspan(1000, count), Into::Assign, coder.context);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Transport);
    }
    for (std::size_t i = 0; i < 1000; ++i) {
      ASSERT_EQ(guarded[i], 5.0F) << i;
      ASSERT_EQ(guarded[1000 + count + i], 5.0F) << i;
    }
  }
}

class LinearCodecs : public Laws {};

TEST_P(LinearCodecs, EncodeSumsAsSums) {
  const std::size_t count = 5000;
  Coder a(GetParam(), count), b(GetParam(), count), both(GetParam(), count);
  std::vector<float> x = whole_numbers(count, 1), y = whole_numbers(count, 2), sum(count);
  for (std::size_t i = 0; i < count; ++i) sum[i] = x[i] + y[i];
  a.codec->encode(0, x, a.wires[0].view(), Residual::Stay, a.context);
  b.codec->encode(0, y, b.wires[0].view(), Residual::Stay, b.context);
  both.codec->encode(0, sum, both.wires[0].view(), Residual::Stay, both.context);
  auto left = as_span<float>(a.wires[0].view()), right = as_span<float>(b.wires[0].view()),
       expected = as_span<float>(both.wires[0].view());
  for (std::size_t i = 0; i < left.size(); ++i) ASSERT_EQ(left[i] + right[i], expected[i]) << i;
}

class UnbiasedCodecs : public Laws {};

using Sender = std::function<std::vector<float>(std::vector<float>& input, int draw)>;

/// How far the draws of a sender are from what rounding by chance does: a value x between two that may be
/// sent, `step` apart, becomes the upper one with probability f, how far it is on the way there. So its error
/// has mean 0 and variance step^2 f (1 - f).
struct Moments {
  double bias = 0;      // the mean of errors away from zero, in its standard deviations
  double variance = 0;  // over what it should be
  double noise = 0;     // standard deviation of `variance`
};

Moments moments_of(const Sender& send, std::vector<float> input, const std::vector<double>& steps,
                   int draws) {
  double away = 0, squares = 0, variance = 0, fourth = 0;
  for (std::size_t i = 0; i < input.size(); ++i) {
    const double f = std::abs(input[i]) / steps[i] - std::floor(std::abs(input[i]) / steps[i]);
    variance += f * (1 - f);
    fourth += f * (1 - f) * (std::pow(f, 3) + std::pow(1 - f, 3)) - std::pow(f * (1 - f), 2);
  }
  for (int draw = 0; draw < draws; ++draw) {
    const std::vector<float> sent = send(input, draw);
    for (std::size_t i = 0; i < input.size(); ++i) {
      const double error = (static_cast<double>(sent[i]) - input[i]) / steps[i];
      away += input[i] > 0 ? error : -error;
      squares += error * error;
    }
  }
  return {away / std::sqrt(variance * draws), squares / (variance * draws),
          std::sqrt(fourth / draws) / variance};
}

testing::AssertionResult is_rounding_by_chance(const Moments& moments) {
  if (std::abs(moments.bias) < 5 && std::abs(moments.variance - 1) < 5 * moments.noise)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << "bias of " << moments.bias << " deviations, variance "
                                     << moments.variance << " times what it should be (+- " << moments.noise
                                     << ")";
}

/// How far values are apart that may be sent in place of each of the input's; 0 where no chance decides.
std::vector<double> steps_of(const CodecRow& row, const std::vector<float>& input) {
  const std::size_t block = 256;
  std::vector<double> steps(input.size());
  for (std::size_t i = 0; i < input.size() && row.step; ++i) {
    const auto first = input.begin() + static_cast<std::ptrdiff_t>(i / block * block);
    const auto last =
        input.begin() + static_cast<std::ptrdiff_t>(std::min(input.size(), i / block * block + block));
    const float largest =
        std::abs(*std::max_element(first, last, [](float a, float b) { return std::abs(a) < std::abs(b); }));
    steps[i] = row.step(input[i], largest);
  }
  return steps;
}

TEST_P(UnbiasedCodecs, RoundByChanceWithTheMeanAndTheVarianceOfTheory) {
  const std::size_t count = 300;
  std::vector<float> input = gradient(count, 8);
  Coder coder(GetParam(), count);
  auto send = [&](std::vector<float>& values, int draw) {
    coder.context.own = mix(static_cast<std::uint64_t>(draw));
    return coder.round_trip(values, Residual::Stay);
  };
  const std::vector<double> steps = steps_of(GetParam(), input);
  const std::vector<float> first = send(input, 0);
  bool by_chance = false;
  for (int draw = 1; draw < 20; ++draw) by_chance = by_chance || bits_of(send(input, draw)) != bits_of(first);
  for (std::size_t i = 0; i < count; ++i)  // a half's two are so near that the nearer one is taken
    ASSERT_LE(std::abs(first[i] - input[i]), by_chance ? 1.001 * steps[i] : std::abs(input[i]) / 256 + 1e-4)
        << i;
  if (by_chance) {
    EXPECT_TRUE(is_rounding_by_chance(moments_of(send, input, steps, 4000)));
  }
}

/// The law itself can fail: of a variance twice too large, and of values a hundredth too small.
TEST(RoundingByChance, IsToldFromWhatIsNoiserOrBiased) {
  const CodecRow& row = find_codec("qsgd");
  std::vector<float> input = gradient(300, 8);
  Coder coder(row, input.size());
  auto send = [&](double noise, double size) {
    return [&coder, noise, size](std::vector<float>& values, int draw) {
      coder.context.own = mix(static_cast<std::uint64_t>(draw));
      std::vector<float> sent = coder.round_trip(values, Residual::Stay);
      for (std::size_t i = 0; i < sent.size(); ++i)
        sent[i] = static_cast<float>(size * (values[i] + noise * (static_cast<double>(sent[i]) - values[i])));
      return sent;
    };
  };
  const std::vector<double> steps = steps_of(row, input);
  EXPECT_TRUE(is_rounding_by_chance(moments_of(send(1, 1), input, steps, 1000)));
  EXPECT_FALSE(is_rounding_by_chance(moments_of(send(std::sqrt(2.0), 1), input, steps, 1000)));
  EXPECT_FALSE(is_rounding_by_chance(moments_of(send(std::sqrt(1.1), 1), input, steps, 1000)));
  EXPECT_FALSE(is_rounding_by_chance(moments_of(send(1, 0.99), input, steps, 1000)));
}

double energy_of(const std::vector<float>& values) {
  double sum = 0;
  for (float value : values) sum += static_cast<double>(value) * value;
  return sum;
}

double energy_left(const std::vector<float>& input, std::vector<float> sent) {
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = input[i] - sent[i];
  return energy_of(sent);
}

/// The k largest of d leave at most 1 - k/d of the energy (Stich et al., NeurIPS 2018), of values or of
/// frequencies, which have the same energy; and here, where magnitudes differ as gradients' do, much less.
TEST(LargestEntries, LeaveLessThanTheirShareOfTheEnergy) {
  const std::size_t count = 64 * 256;
  for (const char* name : {"top_k", "split_top_k", "gtop_k", "dct_top_k"})
    for (std::uint64_t seed : {1, 2, 3}) {
      Coder coder(find_codec(name), count);
      std::vector<float> input = gradient(count, seed);
      const double left = energy_left(input, coder.round_trip(input, Residual::Stay)) / energy_of(input);
      EXPECT_LT(left, 1 - coder.codec->wire_bytes(0, coder.extent()) / (8.0 * count) * 0.99) << name;
      EXPECT_LT(left, std::string_view(name) == "dct_top_k" ? 0.9 : 0.6) << name;
    }
}

/// One place of each of k equal parts leaves 1 - k/d of it in the mean, neither more nor less.
TEST(RandomK, LeavesItsShareOfTheEnergyInTheMean) {
  const std::size_t count = 1000, parts = 50, length = count / parts;
  const int draws = 2000;
  Coder coder(find_codec("random_k"), count);
  std::vector<float> input = gradient(count, 5);
  double left = 0, variance = 0;
  for (int draw = 0; draw < draws; ++draw) {
    coder.context.shared = mix(static_cast<std::uint64_t>(draw));
    left += energy_left(input, coder.round_trip(input, Residual::Stay)) / draws;
  }
  for (std::size_t part = 0; part < parts; ++part) {
    double mean = 0, squares = 0;
    for (std::size_t i = part * length; i < (part + 1) * length; ++i) {
      const double energy = static_cast<double>(input[i]) * input[i];
      mean += energy / length;
      squares += energy * energy / length;
    }
    variance += squares - mean * mean;
  }
  EXPECT_NEAR(left, energy_of(input) * (1 - static_cast<double>(parts) / count),
              5 * std::sqrt(variance / draws));
}

INSTANTIATE_TEST_SUITE_P(Codecs, Laws, testing::ValuesIn(codec_table().begin(), codec_table().end()),
                         row_name);
INSTANTIATE_TEST_SUITE_P(Codecs, ZeroKeepers, testing::ValuesIn(rows_where(keeps_zeros)), row_name);
INSTANTIATE_TEST_SUITE_P(Codecs, SealedWires,
                         testing::ValuesIn(rows_where([](const CodecRow& row) { return !is_linear(row); })),
                         row_name);
INSTANTIATE_TEST_SUITE_P(Codecs, LinearCodecs,
                         testing::ValuesIn(rows_where([](const CodecRow& row) { return is_linear(row); })),
                         row_name);
INSTANTIATE_TEST_SUITE_P(Codecs, UnbiasedCodecs,
                         testing::ValuesIn(rows_where([](const CodecRow& row) { return !row.biased; })),
                         row_name);

TEST(Table, NamesAreDistinctAndFound) {
  for (const CodecRow& row : codec_table()) EXPECT_EQ(find_codec(row.name).name, row.name);
  EXPECT_THROW(find_codec("no such codec"), Error);
  EXPECT_EQ(known_codecs().size(), codec_table().size());
}

/// What stands in front of every wire and question of a codec whose wires are sealed.
std::set<std::uint32_t> letters_of(const CodecRow& row) {
  constexpr std::size_t kCount = 1000;
  Coder coder(row, kCount);
  std::vector<float> values = gradient(kCount, 1);
  const std::vector<float> input = values;
  coder.round_trip(values, Residual::Stay);
  std::set<std::uint32_t> letters;
  auto add = [&letters](ConstView message) {
    Head head;
    std::memcpy(&head, message.data(), sizeof(head));
    letters.insert(head.codec);
  };
  for (Bytes& wire : coder.wires) add(wire.view());
  if (const PartQuery* query = coder.codec->part_query()) {
    Bytes question(query->question_bytes(kCount));
    query->begin(kCount, coder.context);
    query->add(coder.wires.front().view(), kCount, coder.context);
    query->ask(question.view(), kCount, coder.context);
    add(question.view());
  }
  return letters;
}

/// Otherwise a member with another recipe could be decoded as if it were right.
TEST(Table, LettersOfWiresAreDistinct) {
  std::map<std::uint32_t, std::string_view> owners;
  for (const CodecRow& row : codec_table()) {
    if (is_linear(row)) continue;
    for (const std::uint32_t letters : letters_of(row)) {
      const auto [owner, first] = owners.emplace(letters, row.name);
      EXPECT_TRUE(first) << owner->second << " and " << row.name << " have the same letters";
    }
  }
}

}  // namespace
}  // namespace taxon::codec::test
