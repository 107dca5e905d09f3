#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "codec/chosen.h"
#include "codec/codec.h"
#include "codec/collect.h"
#include "codec/scan.h"
#include "codec/select.h"
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

/// A wire of words: a place and a sign each, ascending; those that are not needed follow.
constexpr std::uint32_t kNoEntry = 0xffffffffU;

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
    return sizeof(Head) + padded(room(extent.count) * sizeof(std::uint32_t));
  }
  std::size_t scratch_bytes(const Extent& extent) const override {
    return padded(room(extent.count) * sizeof(std::uint32_t)) +
           std::max(select_scratch_bytes(extent.count, room(extent.count)),
                    keys_of(extent.count) * sizeof(std::uint64_t));
  }

  bool encode(int, std::span<float> values, View wire, Residual residual,
              const CodecContext& context) const override {
    auto words = as_span<std::uint32_t>(body_of(wire));
    const Chosen chosen = choose(values, context);
    std::size_t next = 0;
    for (std::uint32_t place : chosen.places) {
      const bool negative = std::signbit(values[place]);
      words[next++] = place << 1 | (negative ? 1U : 0U);
      if (residual == Residual::Keep) values[place] -= negative ? -threshold_ : threshold_;
    }
    std::fill(words.begin() + static_cast<std::ptrdiff_t>(next), words.end(), kNoEntry);
    Head head = this->head(values.size());
    head.flags = chosen.finite ? 0 : kNotFinite;
    seal(wire, head);
    return chosen.finite;
  }

  void decode(ConstView wire, std::span<float> values, Into into, const CodecContext&) const override {
    const Words words = open_words(wire, values.size());
    if (!words.finite) return fill_not_finite(values);
    if (into == Into::Assign) std::fill(values.begin(), values.end(), 0.0F);
    for (std::uint32_t word : words.words) values[word >> 1] += word & 1 ? -threshold_ : threshold_;
  }

  void clear(ConstView wire, std::span<float> values, const CodecContext&) const override {
    for (std::uint32_t word : open_words(wire, values.size()).words) values[word >> 1] = 0;
  }

 private:
  struct Chosen {
    std::span<const std::uint32_t> places;
    bool finite = true;
  };
  struct Words {
    std::span<const std::uint32_t> words;
    bool finite = true;
  };

  std::size_t room(std::size_t count) const { return entries_of(count, density_); }
  /// Room to find out that more reach the threshold than a wire has room for.
  std::size_t keys_of(std::size_t count) const { return room(count) + 2 * kCollectSlack; }
  Head head(std::size_t count) const { return {letters("thre"), 0, count, room(count)}; }

  Chosen choose(std::span<const float> values, const CodecContext& context) const {
    const std::size_t room = this->room(values.size()), bytes = padded(room * sizeof(std::uint32_t));
    auto places = as_span<std::uint32_t>(context.scratch.slice(0, room * sizeof(std::uint32_t)));
    const View rest = context.scratch.slice(bytes, context.scratch.size() - bytes);
    auto keys = as_span<std::uint64_t>(rest.slice(0, keys_of(values.size()) * sizeof(std::uint64_t)));
    const std::size_t found =
        collect_at_least(values, std::bit_cast<std::uint32_t>(threshold_), keys, context.isa);
    if (found > room) {
      if (!select_largest(values, places, rest, context.isa)) return {{}, false};
      return {places, true};
    }
    bool finite = true;
    for (std::size_t i = 0; i < found; ++i) {
      places[i] = place_of(keys[i]);
      finite &= magnitude_of(keys[i]) < kInfinity;
    }
    return {places.first(finite ? found : 0), finite};
  }

  Words open_words(ConstView wire, std::size_t count) const {
    const Opened opened = open(wire, wire_bytes(0, count), head(count));
    if (!opened.finite) return {{}, false};
    auto words = as_span<std::uint32_t>(opened.body);
    std::size_t used = 0;
    bool right = true;
    for (; used < words.size() && words[used] != kNoEntry; ++used)
      right &= words[used] >> 1 < count && (used == 0 || words[used - 1] >> 1 < words[used] >> 1);
    if (!right)
      throw Error(ErrorKind::Transport,
                  "a compressed gradient names places that are not there, or one twice");
    return {words.first(used)};
  }

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
       .largest_error = [](float value, float) { return std::abs(value); }},
      [](const ThresholdOptions& o) -> std::unique_ptr<Codec> {
        return std::make_unique<Threshold>(o.density, o.threshold);
      });
}

}  // namespace taxon::codec
