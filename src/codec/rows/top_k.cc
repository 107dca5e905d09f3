#include <algorithm>
#include <cstring>

#include "codec/entry_codec.h"
#include "codec/scan.h"
#include "codec/select.h"
#include "codec/unite.h"

namespace taxon::codec {
namespace {

/// The entries of largest magnitude.
class TopK final : public EntryCodec {
 public:
  TopK(const ChosenOptions& options, Algebra algebra) : EntryCodec(options, letters_of(algebra), algebra) {}
  std::size_t scratch_bytes(const Extent& extent) const override {
    return std::max(EntryCodec::scratch_bytes(extent),
                    unite_scratch_bytes(2 * entries_of_range(extent.count)));
  }
  void merge(View into, ConstView other, std::span<float> residual,
             const CodecContext& context) const override;

 private:
  bool choose(std::span<const float> values, std::span<std::uint32_t> places,
              const CodecContext& context) const override {
    return select_largest(values, places, context.scratch, context.isa);
  }
  std::size_t choice_scratch_bytes(std::size_t count, std::size_t entries) const override {
    return select_scratch_bytes(count, entries);
  }
  static std::uint32_t letters_of(Algebra algebra) {
    if (algebra == Algebra::Mergeable) return letters("gtop");
    return algebra == Algebra::Divisible ? letters("stop") : letters("topk");
  }
};

void TopK::merge(View into, ConstView other, std::span<float> residual, const CodecContext& context) const {
  Head mine;
  std::memcpy(&mine, into.data(), std::min(sizeof(mine), into.size()));
  const std::size_t count = mine.count, wanted = entries_of_range(count);
  const Entries a = open_entries(into, head(count)), b = open_entries(other, head(count));
  const Union both = unite(a, b, context.scratch);
  const bool finite = a.finite && b.finite && all_finite(both.values, context.isa);
  if (!finite) return finish(into, count, false);
  const auto [places, values] = entries_to_fill(into, wanted);
  std::size_t kept = 0;
  divide(
      both, wanted,
      [&, places = places, values = values](std::uint32_t place, float value) {
        places[kept] = place;
        values[kept++] = value;
      },
      [&](std::uint32_t place, float value) {
        if (!residual.empty()) residual[place] += value;
      });
  finish(into, count, true);
}

template <Algebra kAlgebra>
constexpr auto kMake = [](const ChosenOptions& options) -> std::unique_ptr<Codec> {
  return std::make_unique<TopK>(options, kAlgebra);
};

}  // namespace

/// Lin et al., "Deep gradient compression", ICLR 2018, and others before; exactly k entries of each member.
CodecRow top_k() {
  return codec_row<ChosenOptions>({.name = "top_k",
                                   .sentence = "the k largest entries of each member",
                                   .bytes = "8 k",
                                   .source = "Aji and Heafield, EMNLP 2017; Lin et al., ICLR 2018",
                                   .biased = true,
                                   .sends_entries = true,
                                   .rules = kEntriesOfWholeRanges},
                                  kMake<Algebra::Opaque>);
}

/// Shi et al., "A distributed synchronous SGD algorithm with global top-k sparsification for low bandwidth
/// networks", ICDCS 2019: merged two by two, k entries in all. Other than there, whoever merges keeps what he
/// drops, so that nothing is lost.
CodecRow gtop_k() {
  return codec_row<ChosenOptions>({.name = "gtop_k",
                                   .sentence = "k entries of all members together",
                                   .bytes = "8 k",
                                   .source = "Shi et al., ICDCS 2019",
                                   .biased = true,
                                   .sends_entries = true,
                                   .rules = kEntriesOfWholeRanges},
                                  kMake<Algebra::Mergeable>);
}

/// Balanced by construction, after Ok-Topk (Li and Hoefler, PPoPP 2022): everybody sends the largest entries
/// of each member's part to that member, who adds them up and sends the largest entries of the sum to all.
/// There parts are cut so that a global threshold leaves them equally many entries; here parts are equally
/// long, each with its share of the entries, so that wires have one size and nobody waits for a longer one.
CodecRow split_top_k() {
  return codec_row<DensityOptions>(
      {.name = "split_top_k",
       .sentence = "the k/n largest entries of each of n parts, and of their sum",
       .bytes = "8 k, twice",
       .source = "after Li and Hoefler, PPoPP 2022 (Ok-Topk)",
       .biased = true,
       .sends_entries = true},
      [](const DensityOptions& options) -> std::unique_ptr<Codec> {
        return std::make_unique<TopK>(ChosenOptions{.density = options.density}, Algebra::Divisible);
      });
}

}  // namespace taxon::codec
