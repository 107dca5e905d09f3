#pragma once

#include "codec/codec.h"

namespace taxon::codec {

// Every codec of the table, one file each; see docs/compression.md.

CodecRow bf16();
CodecRow fp16();
CodecRow int8();
CodecRow int4();
CodecRow qsgd();
CodecRow terngrad();
CodecRow natural();
CodecRow sign();
CodecRow sign_vote();
CodecRow one_bit();
CodecRow two_bit();
CodecRow threshold();
CodecRow random_k();
CodecRow top_k();
CodecRow gtop_k();
CodecRow split_top_k();
CodecRow chunk_top_k();
CodecRow dct_top_k();
CodecRow cocktail();
CodecRow count_sketch();
CodecRow split_sketch();
CodecRow power_sgd();

/// How many of `count` values travel: at least one, if there are any.
std::size_t entries_of(std::size_t count, double density);
/// The place of draw `i` of as many as `draws`, one of each of as many equal parts of `count` values, which
/// is the same for all who have the key.
struct Draws {
  std::size_t count, draws;
};
std::size_t stratified(Draws of, std::size_t i, std::uint64_t key);

}  // namespace taxon::codec
