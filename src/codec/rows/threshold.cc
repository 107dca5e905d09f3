#include <cmath>

#include "codec/chosen.h"
#include "codec/codec.h"
#include "codec/reached.h"
#include "codec/wire.h"

namespace taxon::codec {
namespace {

struct ThresholdOptions {
  double density = 0.01;
  double threshold = 0.001;
};
template <plan::Like<ThresholdOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(kDensity, o.density);
  visit(kThreshold, o.threshold);
}

/// Strom, "Scalable distributed DNN training using commodity GPU cloud computing", Interspeech 2015: of every
/// value that reaches the threshold, the threshold travels. Wires have room for a share of the values, so
/// that their size is known; of more, the largest go first and the others wait in the memory of errors.
class Threshold final : public Codec {
 public:
  Threshold(double density, double threshold)
      : density_(density), threshold_(static_cast<float>(threshold)) {}

  std::span<const Round> rounds() const override {
    static constexpr Round kRounds[] = {{Algebra::Opaque}};
    return kRounds;
  }
  ElementCost cost() const override { return {2, 5, density_, 4 + 8 * density_}; }
  std::size_t wire_bytes(int, const Extent& extent) const override {
    return sizeof(Head) + round_to_line(room(extent.count) * sizeof(std::uint32_t));
  }
  std::size_t scratch_bytes(const Extent& extent) const override {
    return reached_scratch_bytes(extent.count, room(extent.count));
  }

  bool encode(int, std::span<float> values, View wire, Residual residual,
              const CodecContext& context) const override {
    const Reached reached = reach(values, threshold_, room(values.size()), context.scratch, context.isa);
    write_words(reached.places, threshold_, values, residual, as_span<std::uint32_t>(body_of(wire)));
    Head head = this->head(values.size());
    head.flags = reached.finite ? 0 : kNotFinite;
    seal(wire, head);
    return reached.finite;
  }

  void decode(ConstView wire, std::span<float> values, Into into, const CodecContext&) const override {
    const Opened opened = open(wire, wire_bytes(0, values.size()), head(values.size()));
    if (!opened.finite) return fill_not_finite(values);
    expand_words(read_words(as_span<std::uint32_t>(opened.body), values.size()), threshold_, values, into);
  }

  void clear(ConstView wire, std::span<float> values, const CodecContext&) const override {
    const Opened opened = open(wire, wire_bytes(0, values.size()), head(values.size()));
    if (opened.finite) clear_words(read_words(as_span<std::uint32_t>(opened.body), values.size()), values);
  }

 private:
  std::size_t room(std::size_t count) const { return entries_of(count, density_); }
  Head head(std::size_t count) const { return {letters("thre"), 0, count, room(count)}; }

  const double density_;
  const float threshold_;
};

}  // namespace

CodecRow threshold() {
  return codec_row<ThresholdOptions>(
      {.name = "threshold",
       .sentence = "places and signs of values that reach `threshold`, at most k",
       .bytes = "4 k",
       .source = "Strom, Interspeech 2015",
       .biased = true,
       .sends_entries = true,
       .largest_error = [](float value, float) { return std::abs(value); },
       .most = kMostReached},
      [](const ThresholdOptions& o) -> std::unique_ptr<Codec> {
        return std::make_unique<Threshold>(o.density, o.threshold);
      });
}

}  // namespace taxon::codec
