#include "codec/half.h"

#include <algorithm>
#include <cmath>

#include "codec/codec.h"
#include "codec/option_fields.h"
#include "codec/rows/finite.h"
#include "codec/wire.h"

namespace taxon::codec {
namespace {

/// Values at a time: their halves are still in the cache when the checksum is made.
constexpr std::size_t kPiece = 32768;

/// Values in 16 bits. Divisible rather than linear: owners sum in float32 and round once.
class Halves final : public Codec {
 public:
  Halves(Half kind, std::uint32_t letters) : kind_(kind), letters_(letters) {}

  std::span<const Round> rounds() const override {
    static constexpr Round kRounds[] = {{Algebra::Divisible}};
    return kRounds;
  }
  ElementCost cost() const override { return {2, 10, 1, 10}; }
  std::size_t wire_bytes(int, const Extent& extent) const override {
    return sizeof(Head) + round_to_line(extent.count * sizeof(std::uint16_t));
  }
  std::size_t scratch_bytes(const Extent&) const override { return 0; }

  bool encode(int, std::span<float> values, View wire, Residual residual,
              const CodecContext& context) const override {
    auto halves = as_span<std::uint16_t>(body_of(wire));
    Sealing sealing(wire, {letters_, 0, values.size(), values.size()});
    const bool finite = encode_finite(
        values.size(), kPiece,
        [&](Range piece) -> std::size_t {
          auto part = values.subspan(piece.begin, piece.size);
          if (!narrow(part, halves.subspan(piece.begin, piece.size), kind_, context.isa)) return 0;
          if (residual == Residual::Keep)
            subtract(halves.subspan(piece.begin, piece.size), part, kind_, context.isa);
          sealing.reach(piece.end() * sizeof(std::uint16_t));
          return piece.size;
        },
        [&](Range done) {
          if (residual == Residual::Keep)
            widen(halves.first(done.size), values.first(done.size), kind_, true, context.isa);
        });
    std::fill(halves.begin() + static_cast<std::ptrdiff_t>(values.size()), halves.end(), std::uint16_t{0});
    finite ? sealing.finish() : sealing.give_up();
    return finite;
  }

  void decode(ConstView wire, std::span<float> values, Into into,
              const CodecContext& context) const override {
    const Opened opened =
        open(wire, wire_bytes(0, values.size()), {letters_, 0, values.size(), values.size()});
    if (!opened.finite) return fill_not_finite(values);
    widen(as_span<std::uint16_t>(opened.body).first(values.size()), values, kind_, into == Into::Add,
          context.isa);
  }

 private:
  const Half kind_;
  const std::uint32_t letters_;
};

}  // namespace

CodecRow bf16() {
  return codec_row<NoOptions>({.name = "bf16",
                               .sentence = "16 bits, to the nearest",
                               .bytes = "2 d",
                               .largest_error = [](float value, float) { return std::abs(value) / 256; }},
                              [](const NoOptions&) -> std::unique_ptr<Codec> {
                                return std::make_unique<Halves>(Half::BFloat16, letters("bf16"));
                              });
}

CodecRow fp16() {
  return codec_row<NoOptions>(
      {.name = "fp16",
       .sentence = "16 bits, to the nearest",
       .bytes = "2 d",
       .largest_error = [](float value, float) { return std::abs(value) / 2048 + 0x1p-25F; }},
      [](const NoOptions&) -> std::unique_ptr<Codec> {
        return std::make_unique<Halves>(Half::Float16, letters("fp16"));
      });
}

}  // namespace taxon::codec
