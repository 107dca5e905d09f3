#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>

#include "codec/chosen.h"
#include "codec/codec.h"
#include "codec/option_fields.h"
#include "codec/reached.h"
#include "codec/wire.h"
#include "plan/legality.h"

namespace taxon::codec {
namespace {

struct AdaptiveThresholdOptions {
  double density = 0.01;
  double least = 0.0001;
  double threshold = 0.0001;
  double change = 0.965936;
};
template <plan::Like<AdaptiveThresholdOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(kDensity, o.density);
  visit(plan::Field{.key = "least",
                    .sentence = "Share of the values below which the threshold falls.",
                    .min = 0,
                    .max = 1},
        o.least);
  visit(plan::Field{.key = "threshold",
                    .sentence = "At first; in units of a worker's share of the mean gradient.",
                    .min = 0,
                    .max = 1e30,
                    .above_min = true},
        o.threshold);
  visit(plan::Field{.key = "change",
                    .sentence = "Between the thresholds of two steps, where one changes.",
                    .min = 0.5,
                    .max = 1,
                    .below_max = true},
        o.change);
}

/// Deeplearning4j's gradient sharing: Strom's threshold codec (Interspeech 2015) whose threshold grows by a
/// factor while too many values reach it, and shrinks by the same while too few do. There every worker has a
/// threshold of its own, and a mean of them after an epoch. Here all members have one, which follows from
/// wires that all of them decode: of the mean share, of which more than fits the wire is too many. So it is
/// the same everywhere, and checkpoints keep it once.
class AdaptiveThreshold final : public Codec {
 public:
  explicit AdaptiveThreshold(const AdaptiveThresholdOptions& options)
      : density_(options.density),
        least_(static_cast<float>(options.least)),
        threshold_(static_cast<float>(options.threshold)),
        change_(static_cast<float>(options.change)) {}

  std::span<const Round> rounds() const override {
    static constexpr Round kRounds[] = {{Algebra::Opaque}};
    return kRounds;
  }
  ElementCost cost() const override { return {2, 5, density_, 4 + 8 * density_}; }
  bool lasts() const override { return true; }
  std::size_t wire_bytes(int, const Extent& extent) const override {
    return sizeof(Head) + round_to_line((1 + room(extent.count)) * sizeof(std::uint32_t));
  }
  std::size_t scratch_bytes(const Extent& extent) const override {
    return reached_scratch_bytes(extent.count, room(extent.count));
  }

  bool encode(int, std::span<float> values, View wire, Residual residual,
              const CodecContext& context) const override {
    const float threshold = adapted(context);
    auto body = as_span<std::uint32_t>(body_of(wire));
    const Reached reached = reach(values, threshold, room(values.size()), context.scratch, context.isa);
    body.front() = std::bit_cast<std::uint32_t>(threshold);
    write_words(reached.places, threshold, values, residual, body.subspan(1));
    Head head = this->head(values.size());
    head.flags = reached.finite ? 0 : kNotFinite;
    seal(wire, head);
    return reached.finite;
  }

  void decode(ConstView wire, std::span<float> values, Into into,
              const CodecContext& context) const override {
    const Opened opened = open(wire, wire_bytes(0, values.size()), head(values.size()));
    if (!opened.finite) return fill_not_finite(values);
    const auto body = as_span<std::uint32_t>(opened.body);
    const auto words = read_words(body.subspan(1), values.size());
    expand_words(words, std::bit_cast<float>(body.front()), values, into);
    count(words.size(), values.size(), context);
  }

  void clear(ConstView wire, std::span<float> values, const CodecContext&) const override {
    const Opened opened = open(wire, wire_bytes(0, values.size()), head(values.size()));
    if (opened.finite)
      clear_words(read_words(as_span<std::uint32_t>(opened.body).subspan(1), values.size()), values);
  }

 private:
  // What lasts, in the first values of the range's tensors, since nobody saves what lies between these; a
  // range of fewer keeps the first threshold. Zero: that one.
  enum Lasting : std::size_t { kThresholdNow, kFilled, kWires, kLasting };
  /// None: there are too few. A range without tensors is one.
  static std::optional<std::array<float*, kLasting>> lasting_of(const CodecContext& context) {
    const Piece whole[] = {{{0, context.lasting.size()}}};
    std::array<float*, kLasting> numbers{};
    std::size_t found = 0;
    for (const Piece& piece : context.pieces.empty() ? std::span<const Piece>(whole) : context.pieces)
      for (std::size_t i = piece.range.begin; i < std::min(piece.range.end(), context.lasting.size()); ++i) {
        numbers[found++] = &context.lasting[i];
        if (found == kLasting) return numbers;
      }
    return std::nullopt;
  }

  std::size_t room(std::size_t count) const { return entries_of(count, density_); }
  Head head(std::size_t count) const { return {letters("adth"), 0, count, room(count)}; }

  /// After the wires that were decoded since it was asked before.
  float adapted(const CodecContext& context) const {
    const auto lasting = lasting_of(context);
    if (!lasting) return threshold_;
    float &now = *(*lasting)[kThresholdNow], &filled = *(*lasting)[kFilled], &wires = *(*lasting)[kWires];
    if (now == 0) now = threshold_;
    if (wires == 0) return now;
    const float mean = filled / wires;
    const float next = mean >= 1                                      ? now / change_
                       : mean * static_cast<float>(density_) < least_ ? now * change_
                                                                      : now;
    if (std::isnormal(next)) now = next;
    filled = wires = 0;
    return now;
  }
  void count(std::size_t words, std::size_t values, const CodecContext& context) const {
    const auto lasting = lasting_of(context);
    if (!lasting) return;
    *(*lasting)[kFilled] += static_cast<float>(words) / static_cast<float>(room(values));
    *(*lasting)[kWires] += 1;
  }

  const double density_;
  const float least_, threshold_, change_;
};

constexpr plan::LevelRule kRules[] = {
    {"exchange.levels.codec.name",
     "adaptive_threshold needs topology all_reduce, since its threshold follows from all members' wires",
     [](const plan::LegalityInput& c, const plan::LevelPlan& level) {
       return plan::unless(c.known.sum_at(level) == plan::SumAt::Everyone, "topology is " + level.topology);
     }},
    {"exchange.levels.codec.least", "must be below density, where the threshold rises",
     [](const plan::LegalityInput&, const plan::LevelPlan& level) {
       const auto o = level.codec.options.read<AdaptiveThresholdOptions>();
       return plan::unless(o.least < o.density,
                           fmt::format("it is {}, and density is {}", o.least, o.density));
     }},
};

}  // namespace

CodecRow adaptive_threshold() {
  return codec_row<AdaptiveThresholdOptions>(
      {.name = "adaptive_threshold",
       .sentence = "as threshold, which rises while more than k values reach it and falls while few do",
       .bytes = "4 k + 4",
       .source = "Deeplearning4j's AdaptiveThresholdAlgorithm, after Strom, Interspeech 2015",
       .biased = true,
       .sends_entries = true,
       .largest_error = [](float value, float) { return std::abs(value); },
       .rules = kRules,
       .most = kMostReached},
      [](const AdaptiveThresholdOptions& o) -> std::unique_ptr<Codec> {
        return std::make_unique<AdaptiveThreshold>(o);
      });
}

}  // namespace taxon::codec
