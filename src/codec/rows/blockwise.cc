#include <algorithm>

#include "codec/blocks.h"
#include "codec/rows/finite.h"
#include "codec/rows/rows.h"
#include "codec/wire.h"

namespace taxon::codec {
namespace {

/// Values at a time: they stay in the cache between being found finite and being encoded.
constexpr std::size_t kPiece = 16384;

/// One scale per block of values, and a few bits for each.
class Blockwise final : public Codec {
 public:
  Blockwise(BlockShape shape, std::uint32_t letters) : shape_(shape), letters_(letters) {}

  std::span<const Round> rounds() const override {
    static constexpr Round kRounds[] = {{Algebra::Divisible}};
    return kRounds;
  }
  Price price() const override {
    const double bytes = 4 + shape_.bits / 8.0;
    return {shape_.by_chance ? 16.0 : 6.0, bytes + 4, 3, bytes + 4};
  }
  std::size_t wire_bytes(int, std::size_t count) const override {
    return sizeof(Head) + scale_bytes(count) + padded(shape_.code_bytes(count));
  }
  std::size_t scratch_bytes(std::size_t) const override { return 0; }

  bool encode(int, std::span<float> values, View wire, Rest rest, const Use& use) const override {
    View body = body_of(wire);
    const std::size_t blocks = shape_.blocks(values.size()), bytes = shape_.code_bytes(values.size());
    auto scales = as_span<float>(body.slice(0, scale_bytes(values.size())));
    auto codes =
        as_span<std::uint8_t>(body.slice(scale_bytes(values.size()), body.size() - scales.size_bytes()));
    const std::size_t piece = std::max<std::size_t>(1, kPiece / shape_.block) * shape_.block;
    auto scales_of = [&](Range range) {
      return scales.subspan(range.begin / shape_.block, shape_.blocks(range.size));
    };
    auto codes_of = [&](Range range) {
      return codes.subspan(shape_.code_bytes(range.begin), shape_.code_bytes(range.size));
    };
    const bool finite = encode_finite(
        values, piece, use.path,
        [&](Range range) {
          encode_blocks(values.subspan(range.begin, range.size), scales_of(range), codes_of(range), shape_,
                        rest == Rest::Keep, mix(use.own + range.begin), use.path);
        },
        [&](Range done) {
          if (rest == Rest::Keep)
            decode_blocks(scales_of(done), codes_of(done), shape_, true, values.first(done.size), use.path);
        });
    std::fill(scales.begin() + static_cast<std::ptrdiff_t>(blocks), scales.end(), 0.0F);
    std::fill(codes.begin() + static_cast<std::ptrdiff_t>(bytes), codes.end(), std::uint8_t{0});
    seal(wire, {letters_, finite ? 0 : kNotFinite, values.size(), shape_.block});
    return finite;
  }

  void decode(ConstView wire, std::span<float> values, Into into, const Use& use) const override {
    const Opened opened =
        open(wire, wire_bytes(0, values.size()), {letters_, 0, values.size(), shape_.block});
    if (!opened.finite) return fill_not_finite(values);
    const std::size_t scales = scale_bytes(values.size());
    decode_blocks(as_span<float>(opened.body.slice(0, scales)).first(shape_.blocks(values.size())),
                  as_span<std::uint8_t>(opened.body.slice(scales, shape_.code_bytes(values.size()))), shape_,
                  into == Into::Add, values, use.path);
  }

 private:
  std::size_t scale_bytes(std::size_t count) const { return padded(shape_.blocks(count) * sizeof(float)); }
  const BlockShape shape_;
  const std::uint32_t letters_;
};

std::size_t block_of(const plan::CodecPlan& plan) { return static_cast<std::size_t>(plan.block); }

}  // namespace

/// Rounded to the nearest of 255 values between minus and plus the block's largest magnitude.
CodecRow int8() {
  return {"int8",
          [](const plan::CodecPlan& plan) -> std::unique_ptr<Codec> {
            return std::make_unique<Blockwise>(BlockShape{block_of(plan), 127, 8}, letters("int8"));
          },
          true, false};
}

/// Of 15 values.
CodecRow int4() {
  return {"int4",
          [](const plan::CodecPlan& plan) -> std::unique_ptr<Codec> {
            return std::make_unique<Blockwise>(BlockShape{block_of(plan), 7, 4}, letters("int4"));
          },
          true, false};
}

/// Alistarh et al., "QSGD: communication-efficient SGD via gradient quantization and encoding", NIPS 2017: to
/// one of the two neighbouring values by chance, without bias; scaled by the largest magnitude, as in their
/// experiments, and of codes of equal length.
CodecRow qsgd() {
  return {"qsgd",
          [](const plan::CodecPlan& plan) -> std::unique_ptr<Codec> {
            return std::make_unique<Blockwise>(
                BlockShape{block_of(plan), (1 << (plan.bits - 1)) - 1, plan.bits, true}, letters("qsgd"));
          },
          false, false};
}

/// Wen et al., "TernGrad: ternary gradients to reduce communication in distributed deep learning", NIPS 2017:
/// minus, nothing or plus the block's largest magnitude, without bias.
CodecRow terngrad() {
  return {"terngrad",
          [](const plan::CodecPlan& plan) -> std::unique_ptr<Codec> {
            return std::make_unique<Blockwise>(BlockShape{block_of(plan), 1, 2, true}, letters("tern"));
          },
          false, false};
}

}  // namespace taxon::codec
