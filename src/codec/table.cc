#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "codec/codec.h"
#include "codec/rows/rows.h"

namespace taxon::codec {

std::span<const CodecRow> codec_table() {
  static const CodecRow kRows[] = {
      bf16(),         fp16(),         int8(),         int4(),          qsgd(),
      terngrad(),     natural(),      sign(),         sign_vote(),     one_bit(),
      two_bit(),      threshold(),    random_k(),     top_k(),         gtop_k(),
      count_sketch(), power_sgd(),    split_top_k(),  chunk_top_k(),   dct_top_k(),
      cocktail(),     split_sketch(), packed_top_k(), packed_gtop_k(), packed_split_top_k()};
  return kRows;
}

const CodecRow& find_codec(std::string_view name, std::span<const CodecRow> own) {
  for (std::span<const CodecRow> rows : {own, codec_table()})
    for (const CodecRow& row : rows)
      if (row.name == name) return row;
  throw Error(ErrorKind::Usage, "no codec is called " + std::string(name));
}

bool stands_alone(const CodecRow& row) {
  const auto codec = row.make({});
  const auto rounds = codec->rounds();
  return rounds.size() == 1 && rounds[0].algebra != Algebra::Mergeable && !row.votes;
}

bool asks(const CodecRow& row) { return row.make({})->coordinate_query() != nullptr; }

std::vector<plan::KnownNames::Codec> known_codecs(std::span<const CodecRow> own) {
  std::vector<plan::KnownNames::Codec> known;
  for (std::span<const CodecRow> rows : {own, codec_table()})
    for (const CodecRow& row : rows)
      known.push_back({std::string(row.name), row.biased, row.sends_entries, row.votes,
                       row.make({})->rounds().front().algebra == Algebra::Linear, stands_alone(row),
                       asks(row)});
  return known;
}

std::size_t entries_of(std::size_t count, double density) {
  const auto wanted = static_cast<std::size_t>(std::llround(density * static_cast<double>(count)));
  return std::clamp<std::size_t>(wanted, std::min<std::size_t>(1, count), count);
}

}  // namespace taxon::codec
