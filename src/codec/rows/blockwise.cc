#include "codec/rows/blockwise.h"

#include <algorithm>

#include "codec/rows/finite.h"
#include "codec/wire.h"

namespace taxon::codec {
namespace {

/// Values at a time: their codes are still in the cache when the checksum is made.
constexpr std::size_t kChunk = 16384;

class Blockwise final : public Codec {
 public:
  Blockwise(std::unique_ptr<const BlockKernel> kernel, BlockwiseTraits traits)
      : kernel_(std::move(kernel)), layout_(kernel_->layout()), traits_(traits), round_{{traits.algebra}} {}

  std::span<const Round> rounds() const override { return round_; }
  ElementCost cost() const override {
    const double bytes = 4 + layout_.bits / 8.0;
    return {kernel_->encode_flops(), bytes + 4, 3, bytes + 4};
  }
  bool keeps_zeros() const override { return traits_.keeps_zeros; }
  std::size_t wire_bytes(int, const Extent& extent) const override {
    return sizeof(Head) + scale_bytes(extent.count) + round_to_line(layout_.code_bytes(extent.count));
  }
  std::size_t scratch_bytes(const Extent&) const override { return 0; }

  bool encode(int, std::span<float> values, View wire, Residual residual,
              const CodecContext& context) const override {
    const Parts<View> parts = parts_of(body_of(wire), values.size());
    auto codes = as_span<std::uint8_t>(parts.codes);
    auto scales = as_span<float>(parts.scales);
    const std::size_t used = layout_.blocks(values.size()) * layout_.scales,
                      bytes = layout_.code_bytes(values.size());
    const std::size_t piece = std::max<std::size_t>(1, kChunk / layout_.block) * layout_.block;
    auto scales_of = [&](Range range) {
      return scales.subspan(range.begin / layout_.block * layout_.scales,
                            layout_.blocks(range.size) * layout_.scales);
    };
    auto codes_of = [&](Range range) {
      return codes.subspan(layout_.code_bytes(range.begin), layout_.code_bytes(range.size));
    };
    Sealing sealing(wire, {traits_.letters, 0, values.size(), layout_.block});
    const bool finite = encode_finite(
        values.size(), piece,
        [&](Range range) {
          const std::size_t encoded =
              kernel_->encode(values.subspan(range.begin, range.size), scales_of(range), codes_of(range),
                              residual == Residual::Keep, mix(context.own + range.begin), context.isa);
          sealing.reach(layout_.code_bytes(range.begin + encoded));
          return encoded;
        },
        [&](Range done) {
          if (residual == Residual::Keep)
            kernel_->decode(scales_of(done), codes_of(done), true, values.first(done.size), context.isa);
        });
    std::fill(codes.begin() + static_cast<std::ptrdiff_t>(bytes), codes.end(), std::uint8_t{0});
    std::fill(scales.begin() + static_cast<std::ptrdiff_t>(used), scales.end(), 0.0F);
    finite ? sealing.finish() : sealing.give_up();
    return finite;
  }

  void decode(ConstView wire, std::span<float> values, Into into,
              const CodecContext& context) const override {
    const Opened opened =
        open(wire, wire_bytes(0, values.size()), {traits_.letters, 0, values.size(), layout_.block});
    if (!opened.finite) return fill_not_finite(values);
    const Parts<ConstView> parts = parts_of(opened.body, values.size());
    kernel_->decode(as_span<float>(parts.scales).first(layout_.blocks(values.size()) * layout_.scales),
                    as_span<std::uint8_t>(parts.codes).first(layout_.code_bytes(values.size())),
                    into == Into::Add, values, context.isa);
  }

 private:
  /// Of a body. Scales are known last.
  template <class Bytes>
  struct Parts {
    Bytes codes, scales;
  };
  template <class Bytes>
  Parts<Bytes> parts_of(Bytes body, std::size_t count) const {
    const std::size_t codes = round_to_line(layout_.code_bytes(count));
    return {body.slice(0, codes), body.slice(codes, scale_bytes(count))};
  }
  std::size_t scale_bytes(std::size_t count) const {
    return round_to_line(layout_.blocks(count) * layout_.scales * sizeof(float));
  }
  const std::unique_ptr<const BlockKernel> kernel_;
  const BlockLayout layout_;
  const BlockwiseTraits traits_;
  const Round round_[1];
};

}  // namespace

std::unique_ptr<Codec> make_blockwise(std::unique_ptr<const BlockKernel> kernel, BlockwiseTraits traits) {
  return std::make_unique<Blockwise>(std::move(kernel), traits);
}

}  // namespace taxon::codec
