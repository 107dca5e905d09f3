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
CodecRow packed_top_k();
CodecRow packed_gtop_k();
CodecRow packed_split_top_k();

/// How many of `count` values travel: at least one, if there are any.
std::size_t entries_of(std::size_t count, double density);
/// The same as a plan says it: by a share of them, or by a number.
struct Chosen {
  explicit Chosen(const plan::CodecPlan& plan)
      : density(plan.density), entries(static_cast<std::size_t>(plan.entries)) {}
  explicit Chosen(double density) : density(density) {}
  std::size_t of(std::size_t count) const {
    return entries > 0 ? (entries < count ? entries : count) : entries_of(count, density);
  }
  /// For prices, which are by value: a number is a small share of many.
  double share() const { return entries > 0 ? 0 : density; }
  double density;
  std::size_t entries = 0;  // 0: density says
};
/// The place of draw `i` of as many as `draws`, one of each of as many equal parts of `count` values, which
/// is the same for all who have the key.
struct Draws {
  std::size_t count, draws;
};
std::size_t stratified(Draws of, std::size_t i, std::uint64_t key);

}  // namespace taxon::codec
