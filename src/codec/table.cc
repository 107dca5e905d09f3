#include "base/error.h"
#include "codec/codec.h"

namespace taxon::codec {

/// The codec of that name, from its file under codec/rows.
#define TAXON_ROW(name)     \
  [] {                      \
    extern CodecRow name(); \
    return name();          \
  }()

std::span<const CodecRow> codec_table() {
  static const CodecRow kRows[] = {
      TAXON_ROW(bf16),
      TAXON_ROW(fp16),
      TAXON_ROW(int8),
      TAXON_ROW(int4),
      TAXON_ROW(qsgd),
      TAXON_ROW(terngrad),
      TAXON_ROW(natural),
      TAXON_ROW(sign),
      TAXON_ROW(sign_vote),
      TAXON_ROW(one_bit),
      TAXON_ROW(two_bit),
      TAXON_ROW(threshold),
      TAXON_ROW(random_k),
      TAXON_ROW(top_k),
      TAXON_ROW(gtop_k),
      TAXON_ROW(count_sketch),
      TAXON_ROW(power_sgd),
      TAXON_ROW(split_top_k),
      TAXON_ROW(chunk_top_k),
      TAXON_ROW(dct_top_k),
      TAXON_ROW(cocktail),
      TAXON_ROW(split_sketch),
      TAXON_ROW(packed_top_k),
      TAXON_ROW(packed_gtop_k),
      TAXON_ROW(packed_split_top_k),
  };
  return kRows;
}

#undef TAXON_ROW

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
