#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "codec/chosen.h"
#include "codec/codec.h"
#include "codec/entries.h"
#include "codec/fold.h"
#include "codec/half.h"
#include "codec/scan.h"
#include "codec/select.h"
#include "codec/sketch.h"
#include "codec/wire.h"
#include "plan/legality.h"

namespace taxon::codec {
namespace {

struct SketchOptions {
  ChosenOptions chosen;
  int rows = 5;
  double columns = 0.02;
  std::int64_t column_count = 0;  // 0: columns says
  DType table = DType::Float32;
  int reuse = 1;
  int neighbours = 1;
  double candidates = 4;
};
template <plan::Like<SketchOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit_fields(o.chosen, visit);
  visit(kSketchRows, o.rows);
  visit(kColumns, o.columns);
  visit(plan::Field{.key = "column_count",
                    .sentence =
                        "Columns of a row of a bucket's sketch, in place of columns; 0: as columns says.",
                    .min = 0,
                    .max = 1e9},
        o.column_count);
  visit(plan::Field{.key = "table",
                    .sentence = "What a sketch's buckets travel as; they are summed as they are.",
                    .choices = "float32 bfloat16"},
        o.table);
  visit(
      plan::Field{.key = "reuse",
                  .sentence = "Steps that one sketch serves: each sends exact values of the next best of its "
                              "entries; 1: a sketch in every step.",
                  .min = 1,
                  .max = 1000},
      o.reuse);
  visit(plan::Field{.key = "neighbours",
                    .sentence = "Values that follow each other and share a bucket of a sketch, so that its "
                                "candidates are whole blocks of them; 1: each has its own.",
                    .choices = "1 2 4 8 16 32 64"},
        o.neighbours);
  visit(plan::Field{.key = "candidates",
                    .sentence =
                        "Entries whose exact values are fetched after a sketch, per entry that is chosen "
                        "among them.",
                    .min = 0,
                    .max = 1000,
                    .above_min = true},
        o.candidates);
}

constexpr plan::LevelRule kSketchRules[] = {
    kEntriesOfWholeRanges[0],
    {"exchange.levels.codec.column_count", "needs topology all_reduce, where no range is cut into parts",
     [](const plan::LegalityInput& c, const plan::LevelPlan& level) {
       return plan::unless(level.codec.options.read<SketchOptions>().column_count == 0 ||
                               c.known.sum_at(level) == plan::SumAt::Everyone,
                           "topology is " + level.topology);
     }},
    {"exchange.levels.codec.reuse",
     "of more than 1 needs candidates 1, since every exact value that travels counts, and a density that "
     "leaves "
     "as many entries for each step",
     [](const plan::LegalityInput&, const plan::LevelPlan& level) {
       const auto o = level.codec.options.read<SketchOptions>();
       const bool enough = o.chosen.entries > 0 || o.chosen.density * o.reuse <= 1;
       return plan::unless(
           o.reuse == 1 || (o.candidates == 1 && enough),
           fmt::format("reuse is {}, candidates {}, density {}", o.reuse, o.candidates, o.chosen.density));
     }},
    {"exchange.levels.codec.reuse", "must be 1 at servers, whose answers are of one step",
     [](const plan::LegalityInput& c, const plan::LevelPlan& level) {
       const int reuse = level.codec.options.read<SketchOptions>().reuse;
       return plan::unless(c.known.sum_at(level) != plan::SumAt::Servers || reuse == 1,
                           fmt::format("it is {}", reuse));
     }},
};

/// What travels as bfloat16: half the bytes, and less rounding than a sketch's noise.
struct Table {
  DType type = DType::Float32;
  bool wide() const { return type == DType::Float32; }
};

/// The places of a turn between two sketches: those whose mark in what lasts is the turn's. Where there are
/// too few (after a change of density, or of the number of members) the first unmarked ones fill up, so that
/// a wire has its size; too many: the first.
void marked(std::span<const float> marks, float turn, std::span<std::uint32_t> places) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < marks.size() && found < places.size(); ++i)
    if (marks[i] == turn) places[found++] = static_cast<std::uint32_t>(i);
  for (std::size_t i = 0; found < places.size(); ++i)
    if (marks[i] != turn) places[found++] = static_cast<std::uint32_t>(i);
}

/// A turn that needs no sketch: exact values of entries that an earlier one pointed at.
class Between final : public Codec {
 public:
  Between(const ChosenOptions& chosen, int turn) : chosen_(chosen), turn_(static_cast<float>(turn)) {}

  std::span<const Round> rounds() const override {
    static constexpr Round kRounds[] = {{Algebra::Linear, DType::Float32}};
    return kRounds;
  }
  ResidualTiming residual_timing() const override { return ResidualTiming::Delivered; }
  bool lasts() const override { return true; }
  ElementCost cost() const override { return {1, 8, 0, 4 + 12 * chosen_.share()}; }
  std::size_t wire_bytes(int, const Extent& extent) const override {
    return chosen_.of(extent.count) * sizeof(float);
  }
  std::size_t scratch_bytes(const Extent& extent) const override {
    return chosen_.of(extent.count) * sizeof(std::uint32_t);
  }
  bool encode(int, std::span<float> values, View wire, Residual, const CodecContext& context) const override {
    auto exact = as_span<float>(wire);
    std::span<std::uint32_t> places = places_of(values.size(), context);
    marked(context.lasting, turn_, places);
    const bool finite = all_finite(values, context.isa);
    if (!finite) fill_not_finite(exact);
    for (std::size_t i = 0; finite && i < exact.size(); ++i) exact[i] = values[places[i]];
    return finite;
  }
  void decode(ConstView wire, std::span<float> values, Into into,
              const CodecContext& context) const override {
    auto exact = as_span<float>(wire);
    if (!all_finite(exact, context.isa)) return fill_not_finite(values);
    if (into == Into::Assign) std::fill(values.begin(), values.end(), 0.0F);
    const std::span<const std::uint32_t> places = places_of(values.size(), context);
    for (std::size_t i = 0; i < exact.size(); ++i) values[places[i]] += exact[i];
  }
  void settle(ConstView wire, std::span<float> memory, const CodecContext& context) const override {
    clear(wire, memory, context);
  }
  void clear(ConstView wire, std::span<float> values, const CodecContext& context) const override {
    if (!all_finite(as_span<float>(wire), context.isa)) return;
    for (std::uint32_t place : places_of(values.size(), context)) values[place] = 0;
  }

 private:
  std::span<std::uint32_t> places_of(std::size_t count, const CodecContext& context) const {
    return as_span<std::uint32_t>(context.scratch.slice(0, chosen_.of(count) * sizeof(std::uint32_t)));
  }
  const Chosen chosen_;
  const float turn_;
};

/// Dai et al., "A distributed SGD algorithm with global sketching for deep learning training acceleration"
/// (gs-SGD), arXiv 2108.06004: sketches are summed; everybody reads the same candidates from the sum; their
/// exact values are summed; the largest of these are the gradient. With reuse R one sketch serves R steps:
/// it gives R times as many candidates, and each step sends every R-th of them. What waits goes on growing in
/// the memory of errors meanwhile, so it is as good a choice when its turn comes. With neighbours b the
/// sketch is of sums of b neighbours with random signs, and its candidates are all b of them: b times fewer
/// hashes, buckets to look up and places to name.
///
/// Where one member alone has the sums: Ivkin et al., "Communication-efficient distributed SGD with
/// sketching" (Sketched-SGD), NeurIPS 2019.
class GlobalSketch final : public Codec, public CoordinateQuery {
 public:
  explicit GlobalSketch(const SketchOptions& options)
      : chosen_(options.chosen),
        candidates_(options.candidates),
        columns_(options.columns),
        column_count_(static_cast<std::size_t>(options.column_count)),
        rows_(options.rows),
        neighbours_(static_cast<std::size_t>(options.neighbours)),
        table_{options.table},
        rounds_{{Algebra::Linear, table_.type}, {Algebra::Linear, DType::Float32}} {
    for (int turn = 1; turn < options.reuse; ++turn)
      between_.push_back(std::make_unique<Between>(options.chosen, turn));
  }

  std::span<const Round> rounds() const override { return rounds_; }
  ResidualTiming residual_timing() const override { return ResidualTiming::Delivered; }
  bool lasts() const override { return cycle() > 1; }
  int cycle() const override { return static_cast<int>(between_.size()) + 1; }
  const Codec& in_turn(std::int64_t step) const override {
    const auto turn = static_cast<std::size_t>(step % cycle());
    if (turn == 0) return *this;
    return *between_[turn - 1];
  }
  ElementCost cost() const override {
    const auto b = static_cast<double>(neighbours_);
    const double folding = neighbours_ > 1 ? 3 : 0;  // a sign, a sum, and their part of a hash
    return {folding + 4.0 * rows_ / b, 4 + 8.0 * rows_ / b, (4.0 * rows_ + 14) / b,
            4 + (4 + 4.0 * rows_) / b};
  }
  std::size_t wire_bytes(int round, const Extent& extent) const override {
    return round == 0 ? shape(extent.count).size() * size_of(table_.type)
                      : candidates(extent.count) * sizeof(float);
  }
  std::size_t scratch_bytes(const Extent& extent) const override {
    return Scratch::bytes(*this, extent.count);
  }

  bool encode(int round, std::span<float> values, View wire, Residual,
              const CodecContext& context) const override {
    Scratch scratch(*this, values.size(), context.scratch);
    if (round == 0) {
      const bool finite = all_finite(values, context.isa);
      std::span<float> table = table_.wide() ? as_span<float>(wire) : scratch.table;
      if (finite) {
        std::span<const float> items = values;
        if (neighbours_ > 1) {
          fold(values, neighbours_, context.shared, scratch.estimates, context.isa);
          items = scratch.estimates;
        }
        sketch(items, shape(values.size()), context.shared, table, context.isa);
      }
      if (!table_.wide()) {
        if (finite)
          narrow(table, as_span<std::uint16_t>(wire), Half::BFloat16, context.isa);
        else
          std::memset(wire.data(), 0xFF, wire.size());  // NaN in every type
      } else if (!finite) {
        fill_not_finite(table);
      }
      return finite;
    }
    auto exact = as_span<float>(wire);
    if (!*scratch.finite) {
      fill_not_finite(exact);
      return true;
    }
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const std::uint32_t place = scratch.candidates[i];
      exact[i] = place < values.size() ? values[place] : 0;
    }
    return true;
  }

  void absorb(int, std::span<const float> values, ConstView sum, const CodecContext& context) const override {
    Scratch scratch(*this, values.size(), context.scratch);
    if (!table_.wide()) widen(as_span<std::uint16_t>(sum), scratch.table, Half::BFloat16, false, context.isa);
    const std::span<const float> table = table_.wide() ? as_span<float>(sum) : scratch.table;
    *scratch.finite = all_finite(table, context.isa) ? 1 : 0;
    if (!*scratch.finite) return;
    estimate(table, shape(values.size()), context.shared, scratch.estimates, context.isa);
    *scratch.finite = select_largest(scratch.estimates, scratch.items, scratch.select, context.isa) ? 1 : 0;
    if (!*scratch.finite) return;
    spell_out(scratch.items, scratch.found);
    if (cycle() > 1) share_out(scratch, context);
  }

  void decode(ConstView wire, std::span<float> values, Into into,
              const CodecContext& context) const override {
    Scratch scratch(*this, values.size(), context.scratch);
    auto exact = as_span<float>(wire);
    if (!choose(exact, scratch, context)) return fill_not_finite(values);
    if (into == Into::Assign) std::fill(values.begin(), values.end(), 0.0F);
    for (std::uint32_t i : scratch.chosen)
      if (scratch.candidates[i] < values.size()) values[scratch.candidates[i]] += exact[i];
  }

  void settle(ConstView wire, std::span<float> memory, const CodecContext& context) const override {
    clear(wire, memory, context);
  }

  void clear(ConstView wire, std::span<float> values, const CodecContext& context) const override {
    Scratch scratch(*this, values.size(), context.scratch);
    if (!choose(as_span<float>(wire), scratch, context)) return;
    for (std::uint32_t i : scratch.chosen)
      if (scratch.candidates[i] < values.size()) values[scratch.candidates[i]] = 0;
  }

  const CoordinateQuery* coordinate_query() const override { return this; }
  std::size_t question_bytes(std::size_t count) const override {
    return places_bytes(candidates(count) / neighbours_);
  }
  void ask(View question, std::size_t count, const CodecContext& context) const override {
    const Scratch scratch(*this, count, context.scratch);
    const bool finite = *scratch.finite != 0;
    auto places = as_span<std::uint32_t>(body_of(question));
    std::fill(places.begin(), places.end(), 0U);
    if (finite) std::copy(scratch.items.begin(), scratch.items.end(), places.begin());
    seal(question, {kQuestion, finite ? 0 : kNotFinite, items(count), scratch.items.size()});
  }
  void receive(ConstView question, std::size_t count, const CodecContext& context) const override {
    const Scratch scratch(*this, count, context.scratch);
    const Entries asked = open_places(question, {kQuestion, 0, items(count), scratch.items.size()});
    *scratch.finite = asked.finite ? 1 : 0;
    if (asked.finite) spell_out(asked.places, scratch.candidates);
  }
  std::size_t entries(std::size_t count) const override { return chosen(count); }
  bool find(ConstView sum, std::span<std::uint32_t> places, std::size_t count,
            const CodecContext& context) const override {
    Scratch scratch(*this, count, context.scratch);
    if (!choose(as_span<float>(sum), scratch, context)) return false;
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = scratch.candidates[scratch.chosen[i]];
    if (!places.empty() && places.back() >= count)
      throw Error(ErrorKind::Transport, "a sum of exact values has some where there are none");
    return true;
  }

 private:
  static constexpr std::uint32_t kQuestion = letters("skqu");

  /// What is kept from one round to the next, and between.
  struct Scratch {
    std::uint64_t* finite;  // 1: the sketches' sum was
    std::span<float> estimates, table;
    std::span<std::uint32_t> items;  // found in the sketch, for all turns
    std::span<std::uint32_t> found;  // the places of these
    std::span<std::uint32_t> candidates,
        chosen;  // of this one; without reuse, the first are all that was found
    View select;

    Scratch(const GlobalSketch& codec, std::size_t count, View memory) {
      auto take = [&](std::size_t bytes) {
        View taken = memory.slice(0, bytes);
        memory = memory.slice(round_to_line(bytes), memory.size() - round_to_line(bytes));
        return taken;
      };
      finite = as_span<std::uint64_t>(take(sizeof(std::uint64_t))).data();
      estimates = as_span<float>(take(codec.items(count) * sizeof(float)));
      table = as_span<float>(take(codec.table_floats(count) * sizeof(float)));
      found = as_span<std::uint32_t>(take(codec.found(count) * sizeof(std::uint32_t)));
      items = found;
      if (codec.neighbours_ > 1)
        items = as_span<std::uint32_t>(take(codec.found(count) / codec.neighbours_ * sizeof(std::uint32_t)));
      candidates = found;
      if (codec.cycle() > 1)
        candidates = as_span<std::uint32_t>(take(codec.candidates(count) * sizeof(std::uint32_t)));
      chosen = as_span<std::uint32_t>(take(codec.chosen(count) * sizeof(std::uint32_t)));
      select = memory;
    }
    static std::size_t bytes(const GlobalSketch& codec, std::size_t count) {
      const std::size_t found = codec.found(count), candidates = codec.candidates(count);
      const std::size_t chosen = codec.chosen(count), items = codec.items(count);
      const std::size_t found_items = found / codec.neighbours_;
      return round_to_line(sizeof(std::uint64_t)) + round_to_line(items * sizeof(float)) +
             round_to_line(codec.table_floats(count) * sizeof(float)) +
             round_to_line(found * sizeof(std::uint32_t)) +
             (codec.neighbours_ > 1 ? round_to_line(found_items * sizeof(std::uint32_t)) : 0) +
             (codec.cycle() > 1 ? round_to_line(candidates * sizeof(std::uint32_t)) : 0) +
             round_to_line(chosen * sizeof(std::uint32_t)) +
             std::max(select_scratch_bytes(items, found_items), select_scratch_bytes(candidates, chosen));
    }
  };

  std::size_t chosen(std::size_t count) const { return chosen_.of(count); }
  /// What is sketched: the values, or sums of neighbours.
  std::size_t items(std::size_t count) const { return folded_size(count, neighbours_); }
  /// Whole items. The last one may reach beyond the values, so one more makes sure that there are as many
  /// entries as can be chosen.
  std::size_t candidates(std::size_t count) const {
    const auto times =
        static_cast<std::size_t>(std::llround(candidates_ * static_cast<double>(chosen(count))));
    const std::size_t wanted = std::clamp(
        chosen_.entries > 0 ? times : entries_of(count, std::min(1.0, chosen_.density * candidates_)),
        chosen(count), count);
    const std::size_t more = count % neighbours_ != 0 ? 1 : 0;
    return std::min(items(count), folded_size(wanted, neighbours_) + more) * neighbours_;
  }
  std::size_t found(std::size_t count) const {
    return std::min(items(count) * neighbours_, candidates(count) * static_cast<std::size_t>(cycle()));
  }
  /// Of the float32 copy of a table that travels in another type.
  std::size_t table_floats(std::size_t count) const { return table_.wide() ? 0 : shape(count).size(); }
  SketchShape shape(std::size_t count) const {
    return column_count_ > 0 ? sketch_of(rows_, column_count_) : sketch_shape(rows_, columns_, count);
  }
  bool choose(std::span<const float> exact, Scratch& scratch, const CodecContext& context) const {
    return *scratch.finite && select_largest(exact, scratch.chosen, scratch.select, context.isa);
  }
  /// The places of items.
  void spell_out(std::span<const std::uint32_t> items, std::span<std::uint32_t> places) const {
    if (items.data() == places.data()) return;
    for (std::size_t i = 0; i < places.size(); ++i)
      places[i] = static_cast<std::uint32_t>(items[i / neighbours_] * neighbours_ + i % neighbours_);
  }
  /// Every R-th of what was found is for this turn, the next ones for the turns to come. What lies between
  /// tensors waits for none: it is zero, and nobody saves a mark there.
  void share_out(Scratch& scratch, const CodecContext& context) const {
    const std::span<float> marks = context.lasting;
    std::fill(marks.begin(), marks.end(), 0.0F);
    const auto turns = static_cast<std::size_t>(cycle());
    std::size_t mine = 0, piece = 0;
    for (std::size_t i = 0; i < scratch.found.size(); ++i) {
      const std::size_t place = scratch.found[i];
      while (piece < context.pieces.size() && context.pieces[piece].range.end() <= place) ++piece;
      const bool lies_in_one = context.pieces.empty() ||
                               (piece < context.pieces.size() && context.pieces[piece].range.begin <= place);
      if (i % turns == 0 && mine < scratch.candidates.size())
        scratch.candidates[mine++] = scratch.found[i];
      else if (place < marks.size() && lies_in_one)
        marks[place] = static_cast<float>(i % turns);
    }
    for (std::size_t i = 0; mine < scratch.candidates.size(); ++i)  // of a few values there are too few
      if (i % turns != 0) {
        scratch.candidates[mine++] = scratch.found[i];
        if (scratch.found[i] < marks.size()) marks[scratch.found[i]] = 0;
      }
  }

  const Chosen chosen_;
  const double candidates_, columns_;
  const std::size_t column_count_;  // 0: columns_ says
  const int rows_;
  const std::size_t neighbours_;
  const Table table_;
  const Round rounds_[2];
  std::vector<std::unique_ptr<Codec>> between_;  // by turn, from 1
};

}  // namespace

CodecRow count_sketch() {
  return codec_row<SketchOptions>(
      {.name = "count_sketch",
       .sentence = "a sketch; then exact values of `candidates` k entries, the k largest of which count",
       .bytes = "4 rows columns d + 4 candidates k",
       .source = "Dai et al., arXiv 2108.06004 (gs-SGD); Ivkin et al., NeurIPS 2019 (Sketched-SGD)",
       .biased = true,
       .sends_entries = true,
       .rules = kSketchRules},
      [](const SketchOptions& o) -> std::unique_ptr<Codec> { return std::make_unique<GlobalSketch>(o); });
}

}  // namespace taxon::codec
