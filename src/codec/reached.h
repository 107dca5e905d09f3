#pragma once

#include <cstdint>
#include <span>

#include "codec/codec.h"

namespace taxon::codec {

/// Wires of values that reach a threshold (Strom, "Scalable distributed DNN training using commodity GPU
/// cloud computing", Interspeech 2015): words of a place and a sign each, ascending; those that are not
/// needed follow.
struct Reached {
  std::span<const std::uint32_t> places;
  bool finite = true;
};

/// A word has 31 bits for a place, of which one value stands for no entry.
inline constexpr std::size_t kMostReached = (std::size_t{1} << 31) - 1;

/// Places of the values whose magnitude is at least `threshold`, ascending; of more than `room` the largest.
/// None where one of them is not finite. They lie in the scratch, of reached_scratch_bytes(), aligned to 64.
/// REQUIRES: threshold > 0.
Reached reach(std::span<const float> values, float threshold, std::size_t room, View scratch, Isa isa);
std::size_t reached_scratch_bytes(std::size_t count, std::size_t room);

/// Fills the words; with Residual::Keep the values keep what the threshold lacks of them.
void write_words(std::span<const std::uint32_t> places, float threshold, std::span<float> values,
                 Residual residual, std::span<std::uint32_t> words);
/// Those of `words` that are needed. Throws Error{Transport} unless they name places of `count` values,
/// ascending.
std::span<const std::uint32_t> read_words(std::span<const std::uint32_t> words, std::size_t count);
/// values := or += the threshold, with its sign, at the words' places, and 0 elsewhere.
void expand_words(std::span<const std::uint32_t> words, float threshold, std::span<float> values, Into into);
/// values := 0 at the words' places.
void clear_words(std::span<const std::uint32_t> words, std::span<float> values);

}  // namespace taxon::codec
