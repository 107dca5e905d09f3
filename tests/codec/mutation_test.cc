// Messages that were damaged or forged, for every codec: the cases of the fuzzer's corpus, and random ones.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

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

std::vector<std::uint8_t> bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Mutations, AreRefusedOrDecodedInBounds) {
  for (std::size_t row = 0; row < codec_table().size(); ++row) {
    SCOPED_TRACE(codec_table()[row].name);
    Rng rng(row, "mutations");
    int refused = 0, decoded = 0;
    for (int i = 0; i < 400; ++i) ++(feed(random_case(rng, row)) == Outcome::Refused ? refused : decoded);
    EXPECT_GT(decoded, 0);
    EXPECT_EQ(refused > 0, is_sealed(*codec_table()[row].make({})));
  }
}

TEST(Mutations, OfSealedMessagesAreAllNoticed) {
  for (std::size_t row = 0; row < codec_table().size(); ++row) {
    if (!is_sealed(*codec_table()[row].make({}))) continue;
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

/// The cases of a row that the corpus begins with: whole, and damaged in every way that feed() knows.
std::map<std::string, std::vector<std::uint8_t>> first_cases(const CodecRow& row) {
  const auto of_row = [&row](std::uint8_t flags, std::vector<std::uint8_t> edits) {
    std::vector<std::uint8_t> bytes(row.name.begin(), row.name.end());
    bytes.insert(bytes.end(), {'\n', 0xe7, 0x03, flags});  // 1,000 values
    bytes.insert(bytes.end(), edits.begin(), edits.end());
    return bytes;
  };
  const std::vector<std::uint8_t> edits = {40, 0, 255, 0, 90, 1, 1, 0, 7, 2, 0, 200};
  return {{"whole", of_row(0, {})},
          {"edited", of_row(0, edits)},
          {"forged", of_row(Case::kReseal, edits)},
          {"cut", of_row(Case::kTruncate, {70, 0, 1, 0})},
          {"filled", of_row(Case::kReseal | Case::kFill, {3, 129, 64, 250})},
          {"merged", of_row(Case::kMerge | Case::kReseal, edits)}};
}

// TAXON_WRITE_CORPUS=1 codec_test --gtest_filter=Corpus.* writes the first cases of codecs that have none.
TEST(Corpus, HasCasesOfEveryCodec) {
  const std::filesystem::path corpus = TAXON_CODEC_CORPUS;
  for (const CodecRow& row : codec_table()) {
    int cases = 0;
    for (const auto& entry : std::filesystem::directory_iterator(corpus))
      cases += entry.path().filename().string().starts_with(std::string(row.name) + ".");
    if (cases == 0 && std::getenv("TAXON_WRITE_CORPUS"))
      for (const auto& [name, bytes] : first_cases(row)) {
        std::ofstream(corpus / fmt::format("{}.{}", row.name, name), std::ios::binary)
            .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
        ++cases;
      }
    EXPECT_GE(cases, 2) << row.name << ": run TAXON_WRITE_CORPUS=1 codec_test --gtest_filter=Corpus.*";
  }
}

TEST(Corpus, NamesItsCodecs) {
  for (const auto& entry : std::filesystem::directory_iterator(TAXON_CODEC_CORPUS)) {
    const std::string codec = entry.path().stem();
    EXPECT_EQ(codec_table()[Case(bytes_of(entry.path())).row].name, codec) << entry.path();
  }
}

TEST(Corpus, StaysInBounds) {
  for (const auto& entry : std::filesystem::directory_iterator(TAXON_CODEC_CORPUS)) {
    SCOPED_TRACE(entry.path());
    feed(bytes_of(entry.path()));
  }
}

}  // namespace
}  // namespace taxon::codec::fuzz
