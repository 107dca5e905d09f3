#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "codec/blocks.h"
#include "codec/chosen.h"
#include "codec/codec.h"
#include "codec/places.h"
#include "codec/rows/blockwise.h"
#include "codec/select.h"
#include "codec/sketch.h"
#include "codec/wire.h"

namespace taxon::codec {

/// What the buckets of a part's sketch travel as.
enum class SketchTable : std::uint8_t { Int8, Int4 };

}  // namespace taxon::codec

template <>
struct taxon::plan::Words<taxon::codec::SketchTable> {
  static constexpr std::string_view all[] = {"int8", "int4"};
};

namespace taxon::codec {
namespace {

struct SplitSketchOptions {
  double density = 0.01;
  int rows = 5;
  double columns = 0.02;
  SketchTable table = SketchTable::Int8;
  int bits = 4;
  int block = 256;
};
template <plan::Like<SplitSketchOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(kDensity, o.density);
  visit(kSketchRows, o.rows);
  visit(kColumns, o.columns);
  visit(plan::Field{.key = "table",
                    .sentence = "What a sketch's buckets travel as; they are summed in float32."},
        o.table);
  visit(plan::Field{.key = "bits", .sentence = "Of a value.", .choices = "4 8"}, o.bits);
  visit(kScaleBlock, o.block);
}

/// Values in 4 bits, or in 8.
std::unique_ptr<Codec> in_steps(bool four, int block) {
  return make_blockwise(even_steps(static_cast<std::size_t>(block), four ? Steps{7, 4} : Steps{127, 8}),
                        {.letters = letters(four ? "sst4" : "sst8")});
}

/// gs-SGD's idea, with as little on the wire as we know how. Everybody sends each member's part's sketch to
/// that member alone, who adds them up, chooses entries from the sum, and tells all where they are. Then
/// everybody sends him their values, which he adds up, and he sends the sums to all. Compared with sums of
/// whole sketches at every member (count_sketch): tables travel once in place of twice, and, since they are
/// added up decoded, in 8 or 4 bits; so do values, and what that loses stays in the memories of whoever
/// encoded; places take a byte; and each member searches its part alone.
class SplitSketch final : public Codec, public PartQuery {
 public:
  explicit SplitSketch(const SplitSketchOptions& options)
      : density_(options.density),
        columns_(options.columns),
        rows_(options.rows),
        table_(in_steps(options.table == SketchTable::Int4, options.block)),
        values_(in_steps(options.bits == 4, options.block)) {}

  std::span<const Round> rounds() const override {
    static constexpr Round kRounds[] = {{Algebra::Asked}, {Algebra::Asked}};
    return kRounds;
  }
  ResidualTiming residual_timing() const override { return ResidualTiming::Answered; }
  /// Decoding is a search only where parts are owned, see PartQuery::cost().
  ElementCost cost() const override { return {4.0 * rows_, 4 + 8.0 * rows_, density_, 4 + 12 * density_}; }
  std::size_t wire_bytes(int round, const Extent& extent) const override {
    return round == 0 ? table_->wire_bytes(0, shape(extent.count).size())
                      : values_->wire_bytes(0, chosen(extent.count));
  }
  std::size_t scratch_bytes(const Extent& extent) const override {
    return Scratch::bytes(*this, extent.count);
  }

  bool encode(int round, std::span<float> values, View wire, Residual residual,
              const CodecContext& context) const override {
    return round == 0 ? encode_sketch(values, wire, context) : encode_values(values, wire, residual, context);
  }
  /// Of one member alone, who owns all.
  void absorb(int, std::span<const float> values, ConstView wire,
              const CodecContext& context) const override {
    begin(values.size(), context);
    add(wire, values.size(), context);
    choose(values.size(), context);
  }
  void decode(ConstView wire, std::span<float> values, Into into,
              const CodecContext& context) const override {
    const Scratch scratch = heard(values.size(), context);
    values_->decode(wire, scratch.gathered, Into::Assign, context);
    if (!*scratch.finite || !std::isfinite(scratch.gathered.empty() ? 0 : scratch.gathered[0]))
      return fill_not_finite(values);
    if (into == Into::Assign) std::fill(values.begin(), values.end(), 0.0F);
    for (std::size_t i = 0; i < scratch.places.size(); ++i) values[scratch.places[i]] += scratch.gathered[i];
  }
  void clear(ConstView, std::span<float> values, const CodecContext& context) const override {
    const Scratch scratch = heard(values.size(), context);
    if (!*scratch.finite) return;
    for (const std::uint32_t place : scratch.places) values[place] = 0;
  }

  const PartQuery* part_query() const override { return this; }
  ElementCost cost_of_choosing() const override { return {0, 0, 4.0 * rows_ + 14, 4 + 4 + 4.0 * rows_}; }
  std::size_t question_bytes(std::size_t count) const override {
    return sizeof(Head) + round_to_line(places(count).bytes());
  }
  void begin(std::size_t count, const CodecContext& context) const override {
    const Scratch scratch(*this, count, context.scratch);
    *scratch.finite = 1;
    std::fill(scratch.table.begin(), scratch.table.end(), 0.0F);
  }
  void add(ConstView wire, std::size_t count, const CodecContext& context) const override {
    const Scratch scratch(*this, count, context.scratch);
    table_->decode(wire, scratch.table, Into::Add, context);
  }
  void ask(View question, std::size_t count, const CodecContext& context) const override {
    choose(count, context);
    const Scratch scratch(*this, count, context.scratch);
    const bool finite = *scratch.finite != 0;
    auto body = as_span<std::uint8_t>(body_of(question));
    const PlacesShape shape = places(count);
    std::fill(body.begin(), body.end(), std::uint8_t{0});
    if (finite) write_places(scratch.places, shape, body.first(shape.bytes()));
    seal(question, {kQuestion, finite ? 0 : kNotFinite, count, shape.places});
  }
  void receive(ConstView question, std::size_t count, const CodecContext& context) const override {
    const Scratch scratch(*this, count, context.scratch);
    const PlacesShape shape = places(count);
    const Opened opened = open(question, question_bytes(count), {kQuestion, 0, count, shape.places});
    if (opened.finite)
      read_places(as_span<std::uint8_t>(opened.body).first(shape.bytes()), shape, scratch.places);
    *scratch.finite = opened.finite ? 1 : 0;
    *scratch.count = count;
  }

 private:
  static constexpr std::uint32_t kQuestion = letters("ssqu");

  /// What is kept from one round to the next: of an owner the sum of tables, of all what was asked for last.
  struct Scratch {
    std::uint64_t *finite, *count;  // 1: all that came was; how many values the question is about
    std::span<float> table, gathered, estimates;
    std::span<std::uint32_t> places;
    View select;

    Scratch(const SplitSketch& codec, std::size_t values, View memory) {
      auto take = [&](std::size_t bytes) {
        const View taken = memory.slice(0, bytes);
        memory = memory.slice(round_to_line(bytes), memory.size() - round_to_line(bytes));
        return taken;
      };
      auto head = as_span<std::uint64_t>(take(2 * sizeof(std::uint64_t)));
      finite = &head[0];
      count = &head[1];
      table = as_span<float>(take(codec.shape(values).size() * sizeof(float)));
      gathered = as_span<float>(take(codec.chosen(values) * sizeof(float)));
      places = as_span<std::uint32_t>(take(codec.chosen(values) * sizeof(std::uint32_t)));
      estimates = as_span<float>(take(values * sizeof(float)));
      select = memory;
    }
    static std::size_t bytes(const SplitSketch& codec, std::size_t values) {
      const std::size_t entries = round_to_line(codec.chosen(values) * sizeof(float));
      return round_to_line(2 * sizeof(std::uint64_t)) +
             round_to_line(codec.shape(values).size() * sizeof(float)) + 2 * entries +
             round_to_line(values * sizeof(float)) + select_scratch_bytes(values, codec.chosen(values));
    }
  };
  /// REQUIRES that a question about as many values was heard, or asked.
  Scratch heard(std::size_t count, const CodecContext& context) const {
    const Scratch scratch(*this, count, context.scratch);
    if (*scratch.count != count) throw Error(ErrorKind::Transport, "an answer came for another question");
    return scratch;
  }

  bool encode_sketch(std::span<const float> values, View wire, const CodecContext& context) const {
    const Scratch scratch(*this, values.size(), context.scratch);
    sketch(values, shape(values.size()), context.shared, scratch.table, context.isa);
    // What is not finite is in some bucket of every row, and no sum makes it finite.
    return table_->encode(0, scratch.table, wire, Residual::Stay, context);
  }
  bool encode_values(std::span<float> values, View wire, Residual residual,
                     const CodecContext& context) const {
    const Scratch scratch = heard(values.size(), context);
    for (std::size_t i = 0; i < scratch.places.size(); ++i)
      scratch.gathered[i] = *scratch.finite ? values[scratch.places[i]] : std::nanf("");
    if (scratch.places.empty()) return values_->encode(0, scratch.gathered, wire, Residual::Stay, context);
    const bool finite = values_->encode(0, scratch.gathered, wire, residual, context);
    if (finite && residual == Residual::Keep)
      for (std::size_t i = 0; i < scratch.places.size(); ++i) values[scratch.places[i]] = scratch.gathered[i];
    return finite;
  }
  void choose(std::size_t count, const CodecContext& context) const {
    Scratch scratch(*this, count, context.scratch);
    *scratch.count = count;
    estimate(scratch.table, shape(count), context.shared, scratch.estimates, context.isa);
    *scratch.finite = select_largest(scratch.estimates, scratch.places, scratch.select, context.isa) ? 1 : 0;
  }

  std::size_t chosen(std::size_t count) const { return entries_of(count, density_); }
  PlacesShape places(std::size_t count) const { return {count, chosen(count)}; }
  SketchShape shape(std::size_t count) const { return sketch_shape(rows_, columns_, count); }

  const double density_, columns_;
  const int rows_;
  const std::unique_ptr<Codec> table_, values_;
};

}  // namespace

/// After Dai et al., arXiv 2108.06004 (gs-SGD), with parts and owners as in Ok-Topk (Li and Hoefler, PPoPP
/// 2022).
CodecRow split_sketch() {
  return codec_row<SplitSketchOptions>(
      {.name = "split_sketch",
       .sentence = "sketches of parts, to whoever owns them; the places that he asks for; values there, in "
                   "`bits` bits",
       .bytes = "about d (rows columns t / 8 + b), twice k bits / 8 (t, b: "
                "[below](compression.md#sketches-of-parts))",
       .source = "after gs-SGD and Ok-Topk",
       .biased = true,
       .sends_entries = true,
       .largest_error = [](float,
                           float scale) { return 40 * scale; }},  // exactly: tests/codec/asking_test.cc
      [](const SplitSketchOptions& o) -> std::unique_ptr<Codec> { return std::make_unique<SplitSketch>(o); });
}

}  // namespace taxon::codec
