#include <algorithm>

#include "codec/chosen.h"
#include "codec/chunks.h"
#include "codec/codec.h"
#include "codec/scan.h"

namespace taxon::codec {
namespace {

struct CocktailOptions {
  double density = 0.01;
  double drawn = 0.1;
  int bits = 4;
  int block = 256;
};
template <plan::Like<CocktailOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(kDensity, o.density);
  visit(plan::Field{.key = "drawn",
                    .sentence = "Share of the values, drawn by chance, of which the largest travel.",
                    .min = 0,
                    .max = 1,
                    .above_min = true},
        o.drawn);
  visit(kBits, o.bits);
  visit(kChoiceBlock, o.block);
}

/// Of values at random places, one of each of equal parts, that all members draw alike, the largest of each
/// block, in few bits.
class Cocktail final : public Codec {
 public:
  Cocktail(const Chunks::Options& options, double drawn) : chunks_(options), drawn_(drawn) {}

  std::span<const Round> rounds() const override {
    static constexpr Round kRounds[] = {{Algebra::Opaque}};
    return kRounds;
  }
  ElementCost cost() const override { return {14 * drawn_, 4 + 76 * drawn_, drawn_, 4 + 8 * drawn_}; }
  /// Where fewer values than travel are none, zeros travel as half of the first step.
  bool keeps_zeros() const override { return false; }
  std::size_t wire_bytes(int, const Extent& extent) const override {
    return chunks_.wire_bytes(drawn(extent.count));
  }
  std::size_t scratch_bytes(const Extent& extent) const override {
    return round_to_line(drawn(extent.count) * sizeof(float)) + chunks_.scratch_bytes();
  }

  bool encode(int, std::span<float> values, View wire, Residual residual,
              const CodecContext& context) const override {
    const std::size_t count = drawn(values.size()), bytes = round_to_line(count * sizeof(float));
    auto pool = as_span<float>(context.scratch.slice(0, count * sizeof(float)));
    for (std::size_t i = 0; i < count; ++i)
      pool[i] = values[stratified({values.size(), count}, i, context.shared)];
    // A value that is not finite is one of the gradient's, drawn or not.
    const bool finite = all_finite(values, context.isa);
    if (!finite) fill_not_finite(pool);
    chunks_.encode(
        pool, wire,
        {context.scratch.slice(bytes, context.scratch.size() - bytes), context.isa, values.size()});
    if (finite && residual == Residual::Keep)
      Chunks::Reader(chunks_, wire, {count, values.size()}).for_each([&](std::size_t i, float value) {
        values[stratified({values.size(), count}, i, context.shared)] -= value;
      });
    return finite;
  }

  void decode(ConstView wire, std::span<float> values, Into into,
              const CodecContext& context) const override {
    const std::size_t count = drawn(values.size());
    const Chunks::Reader reader(chunks_, wire, {count, values.size()});
    if (!reader.finite()) return fill_not_finite(values);
    if (into == Into::Assign) std::fill(values.begin(), values.end(), 0.0F);
    reader.for_each([&](std::size_t i, float value) {
      values[stratified({values.size(), count}, i, context.shared)] += value;
    });
  }

  void clear(ConstView wire, std::span<float> values, const CodecContext& context) const override {
    const std::size_t count = drawn(values.size());
    const Chunks::Reader reader(chunks_, wire, {count, values.size()});
    if (!reader.finite()) return;
    reader.for_each([&](std::size_t i, float) {
      values[stratified({values.size(), count}, i, context.shared)] = 0;
    });
  }

 private:
  std::size_t drawn(std::size_t count) const { return entries_of(count, drawn_); }
  const Chunks chunks_;
  const double drawn_;
};

}  // namespace

/// Wang, Lu, Yuan, Chen, Liang, De Sa, Ré and Zhang, "CocktailSGD", ICML 2023: random-k, of that top-k, of
/// that few bits.
CodecRow cocktail() {
  return codec_row<CocktailOptions>(
      {.name = "cocktail",
       .sentence =
           "of a share `drawn` of all places, that everybody draws alike, the k largest, in `bits` bits",
       .bytes = "k (2 + bits / 8) + 8 drawn d / block",
       .source = "Wang et al., ICML 2023 (CocktailSGD)",
       .biased = true,
       .sends_entries = true,
       .largest_error = [](float,
                           float scale) { return 40 * scale; }},  // exactly: tests/codec/chunks_test.cc
      [](const CocktailOptions& o) -> std::unique_ptr<Codec> {
        const double density = std::min(1.0, o.density / o.drawn);
        return std::make_unique<Cocktail>(
            Chunks::Options{static_cast<std::size_t>(o.block), density, o.bits, letters("cock")}, o.drawn);
      });
}

}  // namespace taxon::codec
