// What codecs that send entries of chunks, or of frequencies, promise beside the laws of every row.
#include "codec/chunks.h"

#include <algorithm>

#include "codec/cases.h"

namespace taxon::codec::test {
namespace {

plan::Options chunk_plan(int bits) {
  plan::Options options;
  options.set("block", 128);
  options.set("density", 0.1);
  options.set("bits", bits);
  return options;
}

std::vector<float> encoded(const CodecRow& row, const plan::Options& options, std::vector<float> values) {
  Coder coder(row, options, values.size());
  return coder.round_trip(values, Residual::Stay);
}

TEST(ChunkTopK, SendsTheLargestOfEachChunkWithinAHalfStep) {
  const std::size_t count = 1000;
  const std::vector<float> values = gradient(count, 3);
  for (int bits : {2, 4, 8}) {
    const auto sent = encoded(find_codec("chunk_top_k"), chunk_plan(bits), values);
    for (std::size_t begin = 0; begin < count; begin += 128) {
      const std::size_t end = std::min(count, begin + 128);
      const auto k = static_cast<std::size_t>(std::lround(0.1 * static_cast<double>(end - begin)));
      std::vector<float> magnitudes;
      for (std::size_t i = begin; i < end; ++i) magnitudes.push_back(std::abs(values[i]));
      std::sort(magnitudes.rbegin(), magnitudes.rend());
      const float least = magnitudes[k - 1], largest = magnitudes[0];
      std::size_t found = 0;
      for (std::size_t i = begin; i < end; ++i) {
        if (std::abs(values[i]) < least) {
          EXPECT_EQ(sent[i], 0) << i;
          continue;
        }
        ++found;
        EXPECT_NEAR(sent[i], values[i], (largest - least) / static_cast<float>(1 << bits) * 1.001F + 1e-6F)
            << i;
        EXPECT_EQ(std::signbit(sent[i]), std::signbit(values[i])) << i;
      }
      EXPECT_EQ(found, k);
    }
  }
}

TEST(ChunkTopK, CostsTheBitsItSays) {
  const auto codec = find_codec("chunk_top_k").make({{"density", 0.01}, {"bits", 2}, {"block", 4096}});
  const double count = 4096 * 256, entries = 41 * 256;
  // 16 bits of a place, 2 of a value, two float32 for each chunk.
  EXPECT_NEAR(static_cast<double>(codec->wire_bytes(0, static_cast<std::size_t>(count))),
              entries * 18 / 8 + 8 * 256, 256);
}

TEST(DctTopK, HasAllOfAWaveInOneEntry) {
  const std::size_t count = 256;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < 64; ++i)
    values[64 + i] = static_cast<float>(std::cos(3.14159265358979 / 64 * (static_cast<double>(i) + 0.5) * 5));
  const auto sent = encoded(find_codec("dct_top_k"), {{"density", 1.0 / 256}, {"block", 256}}, values);
  for (std::size_t i = 0; i < count; ++i) EXPECT_NEAR(sent[i], values[i], 1e-5) << i;
}

TEST(DctTopK, WithAllEntriesIsTheIdentity) {
  const std::vector<float> values = gradient(1000, 4);
  const auto sent = encoded(find_codec("dct_top_k"), {{"density", 1}, {"block", 256}}, values);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(sent[i], values[i], 1e-4) << i;
}

TEST(Cocktail, DrawsOtherPlacesWithAnotherKeyAndOneOfEachPart) {
  const std::size_t count = 2000;
  std::vector<float> values(count, 1.0F);
  plan::Options options = chunk_plan(8);
  options.set("drawn", 0.1);
  options.set("density", 0.05);
  const CodecRow& row = find_codec("cocktail");
  Coder coder(row, options, count);
  auto places = [&](std::uint64_t key) {
    coder.context.shared = key;
    const auto sent = coder.round_trip(values, Residual::Stay);
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < count; ++i)
      if (sent[i] != 0) found.push_back(i);
    return found;
  };
  const auto first = places(1), second = places(2);
  // Half of each chunk of drawn values, whose last is shorter.
  EXPECT_EQ(first.size(), 100U);
  EXPECT_NE(first, second);
  for (std::size_t i = 1; i < first.size(); ++i) EXPECT_GT(first[i] / 10, first[i - 1] / 10);
}

}  // namespace
}  // namespace taxon::codec::test
