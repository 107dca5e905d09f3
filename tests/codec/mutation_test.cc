// Messages that were damaged or forged, for every codec: the cases of the fuzzer's corpus, and random ones.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/rng.h"
#include "codec/fuzz/feed.h"

namespace taxon::codec::fuzz {
namespace {

std::vector<std::uint8_t> random_case(Rng& rng, std::size_t row) {
  std::vector<std::uint8_t> bytes(4 + 4 * rng.below(9));
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(rng());
  bytes[0] = static_cast<std::uint8_t>(row);
  return bytes;
}

TEST(Mutations, AreRefusedOrDecodedInBounds) {
  for (std::size_t row = 0; row < codec_table().size(); ++row) {
    SCOPED_TRACE(codec_table()[row].name);
    Rng rng(row, "mutations");
    int refused = 0, decoded = 0;
    for (int i = 0; i < 400; ++i) ++(feed(random_case(rng, row)) == Outcome::Refused ? refused : decoded);
    EXPECT_GT(decoded, 0);
    plan::CodecPlan plan;
    EXPECT_EQ(refused > 0, is_sealed(*codec_table()[row].make(plan)));
  }
}

TEST(Mutations, OfSealedMessagesAreAllNoticed) {
  for (std::size_t row = 0; row < codec_table().size(); ++row) {
    plan::CodecPlan plan;
    if (!is_sealed(*codec_table()[row].make(plan))) continue;
    SCOPED_TRACE(codec_table()[row].name);
    Rng rng(row, "flips");
    for (int i = 0; i < 200; ++i) {
      // One edit that changes a byte, and no new checksum.
      const auto place = static_cast<std::uint16_t>(rng());
      const std::vector<std::uint8_t> bytes = {static_cast<std::uint8_t>(row),
                                               static_cast<std::uint8_t>(rng()),
                                               static_cast<std::uint8_t>(rng()),
                                               0,
                                               static_cast<std::uint8_t>(place),
                                               static_cast<std::uint8_t>(place >> 8),
                                               static_cast<std::uint8_t>(1 + rng.below(255)),
                                               0};
      EXPECT_EQ(feed(bytes), Outcome::Refused) << i;
    }
  }
}

TEST(Mutations, OfTheCorpusStayInBounds) {
  int cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TAXON_CODEC_CORPUS)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
    ASSERT_GE(bytes.size(), 4U) << entry.path();
    SCOPED_TRACE(entry.path());
    feed(bytes);
    ++cases;
  }
  EXPECT_GE(cases, static_cast<int>(codec_table().size()));
}

}  // namespace
}  // namespace taxon::codec::fuzz
