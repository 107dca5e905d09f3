#include "codec/blocks.h"
#include "codec/rows/blockwise.h"
#include "codec/rows/rows.h"
#include "codec/wire.h"

namespace taxon::codec {
namespace {

std::unique_ptr<Codec> make(const plan::CodecPlan& plan, Steps steps, std::uint32_t letters) {
  return make_blockwise(even_steps(static_cast<std::size_t>(plan.block), steps), {.letters = letters});
}

}  // namespace

/// Rounded to the nearest of 255 values between minus and plus the block's largest magnitude.
CodecRow int8() {
  return {"int8",
          [](const plan::CodecPlan& plan) {
            return make(plan, {127, 8}, letters("int8"));
          },
          true, false};
}

/// Of 15 values.
CodecRow int4() {
  return {"int4",
          [](const plan::CodecPlan& plan) {
            return make(plan, {7, 4}, letters("int4"));
          },
          true, false};
}

/// Alistarh et al., "QSGD: communication-efficient SGD via gradient quantization and encoding", NIPS 2017: to
/// one of the two neighbouring values by chance, without bias; scaled by the largest magnitude, as in their
/// experiments, and of codes of equal length.
CodecRow qsgd() {
  return {"qsgd",
          [](const plan::CodecPlan& plan) {
            return make(plan, {(1 << (plan.bits - 1)) - 1, plan.bits, true}, letters("qsgd"));
          },
          false, false};
}

/// Wen et al., "TernGrad: ternary gradients to reduce communication in distributed deep learning", NIPS 2017:
/// minus, nothing or plus the block's largest magnitude, without bias.
CodecRow terngrad() {
  return {"terngrad",
          [](const plan::CodecPlan& plan) {
            return make(plan, {1, 2, true}, letters("tern"));
          },
          false, false};
}

}  // namespace taxon::codec
