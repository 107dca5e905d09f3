// A codec of one's own with a key of its own: k entries, of which a share `explore` is drawn at random and
// the rest are the largest, so that what is small everywhere gets its turn before it has grown.
#pragma once

#include <taxon/codec.h>

#include <algorithm>
#include <cmath>
#include <memory>

struct StochasticTopKOptions {
  taxon::codec::ChosenOptions chosen;  // density, or entries
  double explore = 0.1;
};
template <taxon::plan::Like<StochasticTopKOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit_fields(o.chosen, visit);
  visit(
      taxon::plan::Field{
          .key = "explore", .sentence = "Share of the entries that are drawn at random.", .min = 0, .max = 1},
      o.explore);
}

class StochasticTopK final : public taxon::codec::EntryCodec {
 public:
  explicit StochasticTopK(const StochasticTopKOptions& options)
      : EntryCodec(options.chosen, taxon::codec::letters("stok")), explore_(options.explore) {}

 private:
  bool choose(std::span<const float> values, std::span<std::uint32_t> places,
              const taxon::codec::CodecContext& context) const override {
    const std::size_t drawn =
        static_cast<std::size_t>(std::lround(explore_ * static_cast<double>(places.size())));
    const std::size_t largest = places.size() - drawn;
    auto travels = taxon::as_span<std::uint8_t>(context.scratch.slice(0, values.size()));
    const std::size_t skipped = taxon::round_to_line(values.size());
    const taxon::View rest = context.scratch.slice(skipped, context.scratch.size() - skipped);
    const bool finite = largest > 0
                            ? taxon::codec::select_largest(values, places.first(largest), rest, context.isa)
                            : taxon::codec::all_finite(values, context.isa);
    if (!finite) return false;
    std::fill(travels.begin(), travels.end(), std::uint8_t{0});
    for (std::uint32_t place : places.first(largest)) travels[place] = 1;
    for (std::size_t i = 0; i < drawn; ++i) {
      std::size_t place = taxon::codec::stratified({values.size(), drawn}, i, context.own);
      while (travels[place]) place = (place + 1) % values.size();
      travels[place] = 1;
    }
    for (std::size_t place = 0, next = 0; place < values.size(); ++place)
      if (travels[place]) places[next++] = static_cast<std::uint32_t>(place);
    return true;
  }
  std::size_t choice_scratch_bytes(std::size_t count, std::size_t entries) const override {
    return taxon::round_to_line(count) + taxon::codec::select_scratch_bytes(count, entries);
  }

  const double explore_;
};

inline taxon::codec::CodecRow stochastic_top_k() {
  return taxon::codec::codec_row<StochasticTopKOptions>(
      {.name = "stochastic_top_k",
       .sentence = "k entries, a share `explore` of them drawn at random, the rest the largest",
       .bytes = "8 k",
       .biased = true,
       .sends_entries = true,
       .rules = taxon::codec::kEntriesOfWholeRanges},
      [](const StochasticTopKOptions& options) -> std::unique_ptr<taxon::codec::Codec> {
        return std::make_unique<StochasticTopK>(options);
      });
}
