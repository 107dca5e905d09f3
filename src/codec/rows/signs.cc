#include "codec/signs.h"

#include <cmath>

#include "codec/option_fields.h"
#include "codec/rows/blockwise.h"
#include "codec/wire.h"

namespace taxon::codec {
namespace {

std::unique_ptr<Codec> make(const BlockOptions& options, Sign sign, std::uint32_t letters) {
  return make_blockwise(signs(static_cast<std::size_t>(options.block), sign),
                        {.letters = letters, .keeps_zeros = false});
}

float by_scale(float, float scale) { return scale * 1.001F; }

}  // namespace

/// Karimireddy et al., "Error feedback fixes SignSGD and other gradient compression schemes", ICML 2019:
/// signs, times the mean magnitude, here of each block.
CodecRow sign() {
  return codec_row<BlockOptions>(
      {.name = "sign",
       .sentence = "a sign; the mean magnitude of each `block`",
       .bytes = "d (1/8 + 4 / block)",
       .source = "Karimireddy et al., ICML 2019 (EF-signSGD)",
       .biased = true,
       .largest_error = by_scale},
      [](const BlockOptions& o) { return make(o, Sign::MeanMagnitude, letters("sign")); });
}

/// Bernstein et al., "signSGD: compressed optimisation for non-convex problems", ICML 2018: what all get is
/// the sign of the majority. Magnitudes are lost, and with them what a memory could keep.
CodecRow sign_vote() {
  return codec_row<BlockOptions>({.name = "sign_vote",
                                  .sentence = "a sign; all get the majority's, worth one",
                                  .bytes = "d / 8",
                                  .source = "Bernstein et al., ICML 2018 (signSGD, Signum)",
                                  .biased = true,
                                  .votes = true,
                                  .largest_error = [](float value, float) { return std::abs(value) + 1; }},
                                 [](const BlockOptions& o) { return make(o, Sign::One, letters("vote")); });
}

/// Seide et al., "1-bit stochastic gradient descent and its application to data-parallel distributed training
/// of speech DNNs", Interspeech 2014: signs stand for the mean of the values that have them, here of each
/// block instead of each column; the sum is encoded again, with a memory of its own at its owner.
CodecRow one_bit() {
  return codec_row<BlockOptions>(
      {.name = "one_bit",
       .sentence = "a sign; the means of negative and of other values of each `block`",
       .bytes = "d (1/8 + 8 / block)",
       .source = "Seide et al., Interspeech 2014 (1-bit SGD)",
       .biased = true,
       .largest_error = by_scale},
      [](const BlockOptions& o) { return make(o, Sign::TwoMeans, letters("1bit")); });
}

}  // namespace taxon::codec
