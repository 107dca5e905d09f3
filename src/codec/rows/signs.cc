#include "codec/signs.h"

#include "codec/rows/blockwise.h"
#include "codec/rows/rows.h"
#include "codec/wire.h"

namespace taxon::codec {
namespace {

std::unique_ptr<Codec> make(const plan::CodecPlan& plan, Sign sign, std::uint32_t letters) {
  return make_blockwise(signs(static_cast<std::size_t>(plan.block), sign),
                        {.letters = letters, .keeps_zeros = false});
}

}  // namespace

/// Karimireddy et al., "Error feedback fixes SignSGD and other gradient compression schemes", ICML 2019:
/// signs, times the mean magnitude, here of each block.
CodecRow sign() {
  return {"sign",
          [](const plan::CodecPlan& plan) { return make(plan, Sign::MeanMagnitude, letters("sign")); }, true,
          false};
}

/// Bernstein et al., "signSGD: compressed optimisation for non-convex problems", ICML 2018: what all get is
/// the sign of the majority. Magnitudes are lost, and with them what a memory could keep.
CodecRow sign_vote() {
  return {"sign_vote", [](const plan::CodecPlan& plan) { return make(plan, Sign::One, letters("vote")); },
          true, false, true};
}

/// Seide et al., "1-bit stochastic gradient descent and its application to data-parallel distributed training
/// of speech DNNs", Interspeech 2014: signs stand for the mean of the values that have them, here of each
/// block instead of each column; the sum is encoded again, with a memory of its own at its owner.
CodecRow one_bit() {
  return {"one_bit", [](const plan::CodecPlan& plan) { return make(plan, Sign::TwoMeans, letters("1bit")); },
          true, false};
}

}  // namespace taxon::codec
