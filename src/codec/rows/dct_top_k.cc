#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "codec/chosen.h"
#include "codec/chunks.h"
#include "codec/codec.h"
#include "codec/scan.h"

namespace taxon::codec {
namespace {

struct DctOptions {
  double density = 0.01;
  int block = 256;
};
template <plan::Like<DctOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(kDensity, o.density);
  visit(kChoiceBlock, o.block);
}

constexpr std::size_t kWave = 64;  // values that are transformed together

/// [frequency][place] of the orthonormal discrete cosine transform (DCT-II): its transpose is its inverse.
struct Cosines {
  alignas(64) std::array<std::array<float, kWave>, kWave> of;
  Cosines() {
    for (std::size_t f = 0; f < kWave; ++f)
      for (std::size_t i = 0; i < kWave; ++i) {
        const double angle =
            std::numbers::pi / kWave * (static_cast<double>(i) + 0.5) * static_cast<double>(f);
        of[f][i] = static_cast<float>(std::sqrt((f == 0 ? 1.0 : 2.0) / kWave) * std::cos(angle));
      }
  }
};
const Cosines& cosines() {
  static const Cosines kCosines;
  return kCosines;
}
/// The same with [place][frequency].
const Cosines& transposed() {
  static const Cosines kTransposed = [] {
    Cosines other = cosines();
    for (std::size_t f = 0; f < kWave; ++f)
      for (std::size_t i = 0; i < kWave; ++i) other.of[i][f] = cosines().of[f][i];
    return other;
  }();
  return kTransposed;
}

/// out[j] := the sum over i of in[i] rows[i][j], each sum in the order of i.
struct Transform {
  static TAXON_INLINE void run(const float* in, const Cosines* rows, float* out, std::size_t waves) {
    for (std::size_t w = 0; w < waves; ++w, in += kWave, out += kWave) {
      float sums[kWave] = {};
      for (std::size_t i = 0; i < kWave; ++i) {
        const float value = in[i];
        const float* row = rows->of[i].data();
        for (std::size_t j = 0; j < kWave; ++j) sums[j] += value * row[j];
      }
      for (std::size_t j = 0; j < kWave; ++j) out[j] = sums[j];
    }
  }
};

/// The largest entries of each block in the frequencies of 64 neighbours.
class DctTopK final : public Codec {
 public:
  explicit DctTopK(const Chunks::Options& options) : chunks_(options) {}

  std::span<const Round> rounds() const override {
    static constexpr Round kRounds[] = {{Algebra::Opaque}};
    return kRounds;
  }
  ElementCost cost() const override { return {2.0 * kWave + 3, 24, 2.0 * kWave, 20}; }
  /// A wave may lie across what lies between two tensors.
  bool keeps_zeros() const override { return false; }
  std::size_t wire_bytes(int, const Extent& extent) const override {
    return chunks_.wire_bytes(whole(extent.count));
  }
  std::size_t scratch_bytes(const Extent& extent) const override {
    return 2 * whole(extent.count) * sizeof(float) + chunks_.scratch_bytes();
  }

  bool encode(int, std::span<float> values, View wire, Residual residual,
              const CodecContext& context) const override {
    const Scratch scratch = parts(values.size(), context.scratch);
    const bool finite = all_finite(values, context.isa);
    if (finite) {
      std::fill(std::copy(values.begin(), values.end(), scratch.values.begin()), scratch.values.end(), 0.0F);
      run_on<Transform>(context.isa, static_cast<const float*>(scratch.values.data()), &transposed(),
                        scratch.waves.data(), scratch.waves.size() / kWave);
    } else {
      fill_not_finite(scratch.waves);
    }
    // Finite values may have frequencies that are not.
    if (!chunks_.encode(scratch.waves, wire, {scratch.selecting, context.isa, values.size()})) return false;
    if (residual == Residual::Keep) {
      expand(wire, values.size(), context);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] -= scratch.values[i];
    }
    return true;
  }

  void decode(ConstView wire, std::span<float> values, Into into,
              const CodecContext& context) const override {
    if (!expand(wire, values.size(), context)) return fill_not_finite(values);
    const Scratch scratch = parts(values.size(), context.scratch);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = scratch.values[i] + (into == Into::Add ? values[i] : 0.0F);
  }

 private:
  struct Scratch {
    std::span<float> waves, values;
    View selecting;
  };
  static std::size_t whole(std::size_t count) { return (count + kWave - 1) / kWave * kWave; }
  static Scratch parts(std::size_t count, View scratch) {
    const std::size_t bytes = whole(count) * sizeof(float);
    return {as_span<float>(scratch.slice(0, bytes)), as_span<float>(scratch.slice(bytes, bytes)),
            scratch.slice(2 * bytes, scratch.size() - 2 * bytes)};
  }
  /// Scratch's values := what the wire stands for. False: it says that it was not finite.
  bool expand(ConstView wire, std::size_t count, const CodecContext& context) const {
    const Chunks::Reader reader(chunks_, wire, {whole(count), count});
    if (!reader.finite()) return false;
    const Scratch scratch = parts(count, context.scratch);
    std::fill(scratch.waves.begin(), scratch.waves.end(), 0.0F);
    reader.for_each([&](std::size_t place, float value) { scratch.waves[place] = value; });
    run_on<Transform>(context.isa, static_cast<const float*>(scratch.waves.data()), &cosines(),
                      scratch.values.data(), scratch.values.size() / kWave);
    return true;
  }

  const Chunks chunks_;
};

}  // namespace

/// What DeMo sends (Peng, Quesnelle and Kingma, arXiv 2411.19870): the largest frequencies of the momentum,
/// which the memory is if it decays. Frequencies are of 64 values that follow each other in memory, where the
/// authors' are of squares of matrices.
CodecRow dct_top_k() {
  return codec_row<DctOptions>(
      {.name = "dct_top_k",
       .sentence = "the largest frequencies of each `block`, of 64 neighbours each",
       .bytes = "6 k",
       .source = "Peng et al., arXiv 2411.19870 (DeMo)",
       .biased = true,
       .largest_error = [](float,
                           float scale) { return 40 * scale; }},  // exactly: tests/codec/chunks_test.cc
      [](const DctOptions& o) -> std::unique_ptr<Codec> {
        return std::make_unique<DctTopK>(
            Chunks::Options{static_cast<std::size_t>(o.block), o.density, 32, letters("dctt")});
      });
}

}  // namespace taxon::codec
