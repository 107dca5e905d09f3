#include "base/error.h"
#include "base/table_row.h"
#include "codec/codec.h"

namespace taxon::codec {

std::span<const CodecRow> codec_table() {
  static const CodecRow kRows[] = {
      TAXON_ROW(CodecRow, bf16),
      TAXON_ROW(CodecRow, fp16),
      TAXON_ROW(CodecRow, int8),
      TAXON_ROW(CodecRow, int4),
      TAXON_ROW(CodecRow, qsgd),
      TAXON_ROW(CodecRow, terngrad),
      TAXON_ROW(CodecRow, natural),
      TAXON_ROW(CodecRow, sign),
      TAXON_ROW(CodecRow, sign_vote),
      TAXON_ROW(CodecRow, one_bit),
      TAXON_ROW(CodecRow, two_bit),
      TAXON_ROW(CodecRow, threshold),
      TAXON_ROW(CodecRow, adaptive_threshold),
      TAXON_ROW(CodecRow, random_k),
      TAXON_ROW(CodecRow, top_k),
      TAXON_ROW(CodecRow, gtop_k),
      TAXON_ROW(CodecRow, count_sketch),
      TAXON_ROW(CodecRow, power_sgd),
      TAXON_ROW(CodecRow, split_top_k),
      TAXON_ROW(CodecRow, chunk_top_k),
      TAXON_ROW(CodecRow, dct_top_k),
      TAXON_ROW(CodecRow, cocktail),
      TAXON_ROW(CodecRow, split_sketch),
      TAXON_ROW(CodecRow, packed_top_k),
      TAXON_ROW(CodecRow, packed_gtop_k),
      TAXON_ROW(CodecRow, packed_split_top_k),
  };
  return kRows;
}

const CodecRow& find_codec(std::string_view name, std::span<const CodecRow> own) {
  for (std::span<const CodecRow> rows : {own, codec_table()})
    for (const CodecRow& row : rows)
      if (row.name == name) return row;
  throw Error(ErrorKind::Usage, "no codec is called " + std::string(name));
}

/// None for a row that codec_row() has not made.
static std::vector<plan::OptionKey> keys_of(const CodecRow& row) {
  return row.options ? row.options() : std::vector<plan::OptionKey>();
}

plan::Options options_for(const CodecRow& row, const plan::Options& wanted) {
  plan::Options options;
  for (const plan::OptionKey& key : keys_of(row))
    if (const auto found = wanted.given().find(key.key); found != wanted.given().end())
      if (const auto text = key.canonical(found->second)) options.set(key.key, *text);
  return options;
}

bool stands_alone(const CodecRow& row) {
  const auto codec = row.make({});
  const auto rounds = codec->rounds();
  return rounds.size() == 1 && rounds[0].algebra != Algebra::Mergeable && !row.votes;
}

bool asks(const CodecRow& row) { return row.make({})->coordinate_query() != nullptr; }

static std::string algebra_of(const CodecRow& row) {
  static constexpr std::string_view kWords[] = {"linear", "divisible", "mergeable", "opaque", "asked"};
  const auto codec = row.make({});
  const std::span<const Round> rounds = codec->rounds();
  const std::string word(kWords[static_cast<std::size_t>(rounds.front().algebra)]);
  return rounds.size() > 1 ? word + ", two rounds" : word;
}

std::vector<plan::Catalogue::Codec> known_codecs(std::span<const CodecRow> own) {
  std::vector<plan::Catalogue::Codec> known;
  for (std::span<const CodecRow> rows : {own, codec_table()})
    for (const CodecRow& row : rows)
      known.push_back({.name = std::string(row.name),
                       .biased = row.biased,
                       .sends_entries = row.sends_entries,
                       .votes = row.votes,
                       .linear = row.make({})->rounds().front().algebra == Algebra::Linear,
                       .stands_alone = stands_alone(row),
                       .asks = asks(row),
                       .sentence = std::string(row.sentence),
                       .bytes = std::string(row.bytes),
                       .source = std::string(row.source),
                       .algebra = algebra_of(row),
                       .options = keys_of(row),
                       .rules = row.rules});
  return known;
}

}  // namespace taxon::codec
