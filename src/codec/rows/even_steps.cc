#include "codec/blocks.h"
#include "codec/option_fields.h"
#include "codec/rows/blockwise.h"
#include "codec/wire.h"

namespace taxon::codec {
namespace {

struct QsgdOptions {
  int bits = 4;
  int block = 256;
};
template <plan::Like<QsgdOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(kBits, o.bits);
  visit(kScaleBlock, o.block);
}

std::unique_ptr<Codec> make(int block, Steps steps, std::uint32_t letters) {
  return make_blockwise(even_steps(static_cast<std::size_t>(block), steps), {.letters = letters});
}

}  // namespace

/// Rounded to the nearest of 255 values between minus and plus the block's largest magnitude.
CodecRow int8() {
  return codec_row<BlockOptions>({.name = "int8",
                                  .sentence = "8 bits, to the nearest; a scale per `block`",
                                  .bytes = "d (1 + 4 / block)",
                                  .biased = true,
                                  .largest_error = [](float, float scale) { return scale / 254 * 1.001F; }},
                                 [](const BlockOptions& o) {
                                   return make(o.block, {127, 8}, letters("int8"));
                                 });
}

/// Of 15 values.
CodecRow int4() {
  return codec_row<BlockOptions>({.name = "int4",
                                  .sentence = "4 bits, to the nearest; a scale per `block`",
                                  .bytes = "d (1/2 + 4 / block)",
                                  .biased = true,
                                  .largest_error = [](float, float scale) { return scale / 14 * 1.001F; }},
                                 [](const BlockOptions& o) {
                                   return make(o.block, {7, 4}, letters("int4"));
                                 });
}

/// Alistarh et al., "QSGD: communication-efficient SGD via gradient quantization and encoding", NIPS 2017: to
/// one of the two neighbouring values by chance, without bias; scaled by the largest magnitude, as in their
/// experiments, and of codes of equal length.
CodecRow qsgd() {
  return codec_row<QsgdOptions>(
      {.name = "qsgd",
       .sentence = "`bits` bits, by chance; a scale per `block`",
       .bytes = "d (bits / 8 + 4 / block)",
       .source = "Alistarh et al., NIPS 2017",
       .step = [](float, float scale) { return scale / 7; }},
      [](const QsgdOptions& o) {
        return make(o.block, {(1 << (o.bits - 1)) - 1, o.bits, true}, letters("qsgd"));
      });
}

/// Wen et al., "TernGrad: ternary gradients to reduce communication in distributed deep learning", NIPS 2017:
/// minus, nothing or plus the block's largest magnitude, without bias.
CodecRow terngrad() {
  return codec_row<BlockOptions>({.name = "terngrad",
                                  .sentence = "2 bits, by chance",
                                  .bytes = "d (1/4 + 4 / block)",
                                  .source = "Wen et al., NIPS 2017",
                                  .step = [](float, float scale) { return scale; }},
                                 [](const BlockOptions& o) {
                                   return make(o.block, {1, 2, true}, letters("tern"));
                                 });
}

}  // namespace taxon::codec
