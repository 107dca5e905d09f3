#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "codec/blocks.h"
#include "codec/chosen.h"
#include "codec/places.h"
#include "codec/rows/blockwise.h"
#include "codec/scan.h"
#include "codec/select.h"
#include "codec/unite.h"

namespace taxon::codec {
namespace {

struct PackedOptions {
  ChosenOptions chosen;
  int bits = 4;
  int block = 256;
};
template <plan::Like<PackedOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit_fields(o.chosen, visit);
  visit(kBits, o.bits);
  visit(kScaleBlock, o.block);
}

struct PackedSplitOptions {
  double density = 0.01;
  int bits = 4;
  int block = 256;
};
template <plan::Like<PackedSplitOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(kDensity, o.density);
  visit(kBits, o.bits);
  visit(kScaleBlock, o.block);
}

/// The entries of largest magnitude, places in a byte or less and values in few bits. What values lose by
/// that is as what was not chosen: it stays with whoever rounded.
class PackedTopK final : public Codec {
 public:
  PackedTopK(const PackedOptions& options, Algebra algebra, std::uint32_t letters)
      : chosen_(options.chosen),
        values_(make_blockwise(even_steps(static_cast<std::size_t>(options.block),
                                          {(1 << (options.bits - 1)) - 1, options.bits}),
                               {.letters = letters})),
        round_{{algebra}},
        letters_(letters) {}

  std::span<const Round> rounds() const override { return round_; }
  ElementCost cost() const override { return {2, 5, 8 * chosen_.share(), 4 + 8 * chosen_.share()}; }
  std::size_t wire_bytes(int, const Extent& extent) const override {
    return sizeof(Head) + round_to_line(places(extent.count).bytes()) +
           values_->wire_bytes(0, chosen_.of(extent.count));
  }
  std::size_t scratch_bytes(const Extent& extent) const override {
    const std::size_t k = chosen_.of(extent.count);
    return 4 * round_to_line(k * sizeof(float)) +
           std::max(select_scratch_bytes(extent.count, k), unite_scratch_bytes(2 * k));
  }

  bool encode(int, std::span<float> values, View wire, Residual residual,
              const CodecContext& context) const override {
    const Scratch scratch(chosen_.of(values.size()), context.scratch);
    if (!select_largest(values, scratch.places, scratch.more, context.isa)) {
      seal(wire, head(values.size(), kNotFinite));
      return false;
    }
    for (std::size_t i = 0; i < scratch.places.size(); ++i) scratch.values[i] = values[scratch.places[i]];
    write(wire, values.size(), scratch, residual, context);
    if (residual == Residual::Keep)
      for (std::size_t i = 0; i < scratch.places.size(); ++i) values[scratch.places[i]] = scratch.values[i];
    return true;
  }

  void decode(ConstView wire, std::span<float> values, Into into,
              const CodecContext& context) const override {
    const Scratch scratch(chosen_.of(values.size()), context.scratch);
    if (!read(wire, values.size(), scratch.places, scratch.values, context)) return fill_not_finite(values);
    if (into == Into::Assign) std::fill(values.begin(), values.end(), 0.0F);
    for (std::size_t i = 0; i < scratch.places.size(); ++i) values[scratch.places[i]] += scratch.values[i];
  }

  void clear(ConstView wire, std::span<float> values, const CodecContext& context) const override {
    const Scratch scratch(chosen_.of(values.size()), context.scratch);
    if (!read(wire, values.size(), scratch.places, scratch.values, context)) return;
    for (const std::uint32_t place : scratch.places) values[place] = 0;
  }

  void merge(View into, ConstView other, std::span<float> residual,
             const CodecContext& context) const override {
    Head mine;
    std::memcpy(&mine, into.data(), std::min(sizeof(mine), into.size()));
    if (into.size() != wire_bytes(0, mine.count))
      throw Error(ErrorKind::Transport, "wires of different sizes can't be merged");
    const std::size_t count = mine.count, k = chosen_.of(count);
    const Scratch scratch(k, context.scratch);
    const bool first = read(into, count, scratch.places, scratch.values, context);
    if (!read(other, count, scratch.other_places, scratch.other_values, context) || !first)
      return seal(into, head(count, kNotFinite));
    const Union both =
        unite({scratch.places, scratch.values}, {scratch.other_places, scratch.other_values}, scratch.more);
    if (!all_finite(both.values, context.isa)) return seal(into, head(count, kNotFinite));
    std::size_t kept = 0;
    divide(
        both, k,
        [&](std::uint32_t place, float value) {
          scratch.places[kept] = place;
          scratch.values[kept++] = value;
        },
        [&](std::uint32_t place, float value) {
          if (!residual.empty()) residual[place] += value;
        });
    write(into, count, scratch, Residual::Keep, context);
    for (std::size_t i = 0; i < k && !residual.empty(); ++i) residual[scratch.places[i]] += scratch.values[i];
  }

 private:
  struct Scratch {
    std::span<std::uint32_t> places, other_places;
    std::span<float> values, other_values;
    View more;  // to select, or to unite

    Scratch(std::size_t entries, View memory) {
      auto take = [&] {
        const View taken = memory.slice(0, entries * sizeof(float));
        memory = memory.slice(round_to_line(taken.size()), memory.size() - round_to_line(taken.size()));
        return taken;
      };
      places = as_span<std::uint32_t>(take());
      other_places = as_span<std::uint32_t>(take());
      values = as_span<float>(take());
      other_values = as_span<float>(take());
      more = memory;
    }
  };

  /// Afterwards, with Residual::Keep, values are what the wire lacks.
  void write(View wire, std::size_t count, const Scratch& scratch, Residual residual,
             const CodecContext& context) const {
    View body = body_of(wire);
    const PlacesShape shape = places(count);
    const std::size_t room = round_to_line(shape.bytes());
    auto named = as_span<std::uint8_t>(body.slice(0, room));
    std::fill(named.begin(), named.end(), std::uint8_t{0});
    write_places(scratch.places, shape, named.first(shape.bytes()));
    values_->encode(0, scratch.values, body.slice(room, body.size() - room), residual, context);
    seal(wire, head(count, 0));
  }
  /// False: it was not finite.
  bool read(ConstView wire, std::size_t count, std::span<std::uint32_t> at, std::span<float> values,
            const CodecContext& context) const {
    const Opened opened = open(wire, wire_bytes(0, count), head(count, 0));
    if (!opened.finite) return false;
    const PlacesShape shape = places(count);
    const std::size_t room = round_to_line(shape.bytes());
    read_places(as_span<std::uint8_t>(opened.body.slice(0, room)).first(shape.bytes()), shape, at);
    values_->decode(opened.body.slice(room, opened.body.size() - room), values, Into::Assign, context);
    return true;
  }

  PlacesShape places(std::size_t count) const { return {count, chosen_.of(count)}; }
  Head head(std::size_t count, std::uint32_t flags) const {
    return {letters_, flags, count, chosen_.of(count)};
  }

  const Chosen chosen_;
  const std::unique_ptr<Codec> values_;
  const Round round_[1];
  const std::uint32_t letters_;
};

float in_few_bits(float, float scale) { return 40 * scale; }  // exactly: tests/codec/packed_test.cc

}  // namespace

/// top_k, gtop_k and split_top_k with coded places and values of `bits` bits.
CodecRow packed_top_k() {
  return codec_row<PackedOptions>(
      {.name = "packed_top_k",
       .sentence = "as top_k, a place in a byte (or a bit for each value), a value in `bits` bits",
       .bytes = "k (1 + bits / 8 + 4 / block) + d / 255",
       .source = "places and values as split_sketch has them",
       .biased = true,
       .sends_entries = true,
       .largest_error = in_few_bits,
       .rules = kEntriesOfWholeRanges},
      [](const PackedOptions& o) -> std::unique_ptr<Codec> {
        return std::make_unique<PackedTopK>(o, Algebra::Opaque, letters("ptop"));
      });
}
CodecRow packed_gtop_k() {
  return codec_row<PackedOptions>(
      {.name = "packed_gtop_k",
       .sentence = "as gtop_k, a place in a byte (or a bit for each value), a value in `bits` bits",
       .bytes = "k (1 + bits / 8 + 4 / block) + d / 255",
       .source = "places and values as split_sketch has them",
       .biased = true,
       .sends_entries = true,
       .largest_error = in_few_bits,
       .rules = kEntriesOfWholeRanges},
      [](const PackedOptions& o) -> std::unique_ptr<Codec> {
        return std::make_unique<PackedTopK>(o, Algebra::Mergeable, letters("pgto"));
      });
}
CodecRow packed_split_top_k() {
  return codec_row<PackedSplitOptions>(
      {.name = "packed_split_top_k",
       .sentence = "as split_top_k, a place in a byte (or a bit for each value), a value in `bits` bits",
       .bytes = "k (1 + bits / 8 + 4 / block) + d / 255, twice",
       .source = "places and values as split_sketch has them",
       .biased = true,
       .sends_entries = true,
       .largest_error = in_few_bits},
      [](const PackedSplitOptions& o) -> std::unique_ptr<Codec> {
        return std::make_unique<PackedTopK>(PackedOptions{{.density = o.density}, o.bits, o.block},
                                            Algebra::Divisible, letters("pspl"));
      });
}

}  // namespace taxon::codec
