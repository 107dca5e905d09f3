#include <algorithm>

#include "codec/chosen.h"
#include "codec/chunks.h"
#include "codec/codec.h"

namespace taxon::codec {
namespace {

struct ChunkOptions {
  double density = 0.01;
  int bits = 4;
  int block = 256;
};
template <plan::Like<ChunkOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(kDensity, o.density);
  visit(kBits, o.bits);
  visit(kChoiceBlock, o.block);
}

/// The entries of largest magnitude of each block, in few bits.
class ChunkTopK final : public Codec {
 public:
  explicit ChunkTopK(const Chunks::Options& options) : chunks_(options), density_(options.density) {}

  std::span<const Round> rounds() const override {
    static constexpr Round kRounds[] = {{Algebra::Opaque}};
    return kRounds;
  }
  ElementCost cost() const override { return {3, 9, 2 * density_, 4 + 8 * density_}; }
  /// Where fewer values than travel are none, zeros travel as half of the first step.
  bool keeps_zeros() const override { return false; }
  std::size_t wire_bytes(int, const Extent& extent) const override {
    return chunks_.wire_bytes(extent.count);
  }
  std::size_t scratch_bytes(const Extent&) const override { return chunks_.scratch_bytes(); }

  bool encode(int, std::span<float> values, View wire, Residual residual,
              const CodecContext& context) const override {
    if (!chunks_.encode(values, wire, {context.scratch, context.isa, values.size()})) return false;
    if (residual == Residual::Keep)
      Chunks::Reader(chunks_, wire, values.size()).for_each([&](std::size_t place, float value) {
        values[place] -= value;
      });
    return true;
  }

  void decode(ConstView wire, std::span<float> values, Into into, const CodecContext&) const override {
    const Chunks::Reader reader(chunks_, wire, values.size());
    if (!reader.finite()) return fill_not_finite(values);
    if (into == Into::Assign) std::fill(values.begin(), values.end(), 0.0F);
    reader.for_each([&](std::size_t place, float value) { values[place] += value; });
  }

  void clear(ConstView wire, std::span<float> values, const CodecContext&) const override {
    const Chunks::Reader reader(chunks_, wire, values.size());
    if (reader.finite()) reader.for_each([&](std::size_t place, float) { values[place] = 0; });
  }

 private:
  const Chunks chunks_;
  const double density_;
};

}  // namespace

/// What SparseLoCo sends (Sarfi, Thérien, Lidin and Belilovsky, arXiv 2508.15706): top-k of chunks, with 2
/// bits for a value.
CodecRow chunk_top_k() {
  return codec_row<ChunkOptions>(
      {.name = "chunk_top_k",
       .sentence = "the largest entries of each `block`, in `bits` bits",
       .bytes = "k (2 + bits / 8) + 8 d / block",
       .source = "Sarfi et al., arXiv 2508.15706 (SparseLoCo)",
       .biased = true,
       .sends_entries = true,
       .largest_error = [](float,
                           float scale) { return 40 * scale; }},  // exactly: tests/codec/chunks_test.cc
      [](const ChunkOptions& o) -> std::unique_ptr<Codec> {
        return std::make_unique<ChunkTopK>(
            Chunks::Options{static_cast<std::size_t>(o.block), o.density, o.bits, letters("ctop")});
      });
}

}  // namespace taxon::codec
