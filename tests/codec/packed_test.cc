// Entries with coded places and values of few bits, and numbers of entries in place of densities.
#include <algorithm>
#include <map>

#include "codec/cases.h"
#include "codec/wire.h"

namespace taxon::codec::test {
namespace {

constexpr std::size_t kPacked = 20000;

std::map<std::size_t, float> entries_of(const std::vector<float>& values) {
  std::map<std::size_t, float> entries;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != 0) entries[i] = values[i];
  return entries;
}

plan::Options packed(int bits) {
  plan::Options options = options_of();
  options.set("bits", bits);
  return options;
}

TEST(PackedTopK, SendsTheSameEntriesToTheNearestStep) {
  for (int bits : {2, 4, 8}) {
    std::vector<float> values = gradient(kPacked, 3), same = values;
    const auto exact = entries_of(Coder(find_codec("top_k"), kPacked).round_trip(same, Residual::Stay));
    Coder coder(find_codec("packed_top_k"), packed(bits), kPacked);
    std::vector<float> rest = values;
    const auto sent = entries_of(coder.round_trip(rest, Residual::Keep));
    ASSERT_EQ(exact.size(), 1000u);
    const float levels = static_cast<float>((1 << (bits - 1)) - 1);
    std::vector<std::pair<std::size_t, float>> in_order(exact.begin(), exact.end());
    for (std::size_t first = 0; first < in_order.size(); first += 256) {
      const std::size_t end = std::min(in_order.size(), first + 256);
      float scale = 0;
      for (std::size_t i = first; i < end; ++i) scale = std::max(scale, std::abs(in_order[i].second));
      for (std::size_t i = first; i < end; ++i) {
        const auto [place, value] = in_order[i];
        const float here = sent.contains(place) ? sent.at(place) : 0;
        EXPECT_LE(std::abs(here - value), scale / levels / 2 * 1.001F) << bits << " bits, " << place;
        EXPECT_FLOAT_EQ(rest[place], value - here);
      }
    }
    for (const auto& [place, value] : sent) EXPECT_TRUE(exact.contains(place)) << place;
  }
}

TEST(PackedTopK, AnEntryTakesAByteAndItsBits) {
  // 1000 of 20000: a gap each and 78 that go on; four blocks of 256 codes and their scales; two heads.
  auto padded_to_64 = [](std::size_t bytes) { return (bytes + 63) / 64 * 64; };
  for (int bits : {2, 4, 8}) {
    const auto codec = find_codec("packed_gtop_k").make(packed(bits));
    EXPECT_EQ(codec->wire_bytes(0, kPacked), 2 * sizeof(Head) + padded_to_64(1000 + kPacked / 255) +
                                                 padded_to_64(4 * 256 * static_cast<std::size_t>(bits) / 8) +
                                                 64);
  }
}

TEST(PackedTopK, AMergedWireHasTheLargestOfBothAndTheRestIsKept) {
  const plan::Options options = packed(8);
  Coder a(find_codec("packed_gtop_k"), options, kPacked), b(find_codec("packed_gtop_k"), options, kPacked);
  std::vector<float> first = gradient(kPacked, 1), second = gradient(kPacked, 2);
  const auto of_a = a.round_trip(first, Residual::Keep), of_b = b.round_trip(second, Residual::Keep);
  std::vector<float> dropped(kPacked), merged(kPacked);
  a.codec->merge(a.wires[0].view(), b.wires[0].view(), dropped, a.context);
  a.codec->decode(a.last(), merged, Into::Assign, a.context);
  std::vector<float> magnitudes;
  for (std::size_t i = 0; i < kPacked; ++i) {
    EXPECT_NEAR(merged[i] + dropped[i], of_a[i] + of_b[i], 1e-5F) << i;
    magnitudes.push_back(std::abs(of_a[i] + of_b[i]));
  }
  std::nth_element(magnitudes.begin(), magnitudes.begin() + 999, magnitudes.end(), std::greater<>());
  EXPECT_LE(entries_of(merged).size(), 1000u);
  for (std::size_t i = 0; i < kPacked; ++i)
    if (merged[i] != 0) {
      EXPECT_GE(std::abs(of_a[i] + of_b[i]), magnitudes[999]) << i;
    }
}

TEST(CountedEntries, AreAsManyOfAnyNumberOfValues) {
  for (const char* name : {"random_k", "top_k", "gtop_k", "packed_top_k", "packed_gtop_k", "count_sketch"}) {
    plan::Options options = options_of();
    options.set("entries", 300);
    options.set("column_count", 1000);  // of count_sketch alone
    const auto codec = find_codec(name).make(options);
    for (int round = 0; round < static_cast<int>(codec->rounds().size()); ++round) {
      const std::size_t bytes = codec->wire_bytes(round, 100000);
      if (!std::string_view(name).starts_with("packed_")) {
        EXPECT_EQ(codec->wire_bytes(round, 1000000), bytes) << name;
      } else {
        EXPECT_GT(codec->wire_bytes(round, 1000000), bytes) << "gaps between places grow";
      }
    }
    Coder coder(find_codec(name), options, 5000);
    std::vector<float> values = gradient(5000, 9);
    EXPECT_LE(entries_of(coder.round_trip(values, Residual::Stay)).size(), 300u) << name;
    Coder few(find_codec(name), options, 20);  // fewer values than entries: all of them
    std::vector<float> some = gradient(20, 9);
    const std::size_t sent = entries_of(few.round_trip(some, Residual::Stay)).size();
    EXPECT_TRUE(std::string_view(name).starts_with("packed_") ? sent > 0 : sent == 20)
        << name << ": " << sent;
  }
}

TEST(CountedEntries, OfASketchAreItsHeaviest) {
  plan::Options options = options_of();
  options.set("entries", 5);
  options.set("column_count", 512);
  options.set("candidates", 4);
  Coder coder(find_codec("count_sketch"), options, kPacked);
  std::vector<float> values(kPacked, 0.001F);
  for (std::size_t i : {7U, 500U, 9000U, 12345U, 19999U}) values[i] = 5.0F + static_cast<float>(i);
  std::vector<float> input = values;
  const auto sent = entries_of(coder.round_trip(input, Residual::Stay));
  ASSERT_EQ(sent.size(), 5u);
  for (const auto& [place, value] : sent) EXPECT_EQ(value, values[place]);
  EXPECT_EQ(sent.begin()->first, 7u);
}

}  // namespace
}  // namespace taxon::codec::test
