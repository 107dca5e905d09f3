#include <algorithm>
#include <cstring>

#include "codec/rows/rows.h"
#include "codec/scan.h"
#include "codec/select.h"
#include "codec/unite.h"

namespace taxon::codec {
namespace {

/// The entries of largest magnitude.
class TopK final : public Codec {
 public:
  TopK(const plan::CodecPlan& plan, Algebra algebra)
      : chosen_(plan), round_{{algebra}}, letters_(letters_of(algebra)) {}

  std::span<const Round> rounds() const override { return round_; }
  ElementCost cost() const override { return {2, 5, chosen_.share(), 4 + 8 * chosen_.share()}; }
  std::size_t wire_bytes(int, const Extent& extent) const override {
    return entries_bytes(chosen(extent.count));
  }
  std::size_t scratch_bytes(const Extent& extent) const override {
    return std::max(select_scratch_bytes(extent.count, chosen(extent.count)),
                    unite_scratch_bytes(2 * chosen(extent.count)));
  }

  bool encode(int, std::span<float> values, View wire, Residual residual,
              const CodecContext& context) const override {
    const auto [places, chosen_values] = entries_to_fill(wire, chosen(values.size()));
    const bool finite = select_largest(values, places, context.scratch, context.isa);
    if (finite)
      for (std::size_t i = 0; i < places.size(); ++i) {
        chosen_values[i] = values[places[i]];
        if (residual == Residual::Keep) values[places[i]] = 0;
      }
    finish(wire, values.size(), finite);
    return finite;
  }

  void decode(ConstView wire, std::span<float> values, Into into, const CodecContext&) const override {
    const Entries entries = open_entries(wire, head(values.size()));
    if (!entries.finite) return fill_not_finite(values);
    if (into == Into::Assign) std::fill(values.begin(), values.end(), 0.0F);
    for (std::size_t i = 0; i < entries.places.size(); ++i) values[entries.places[i]] += entries.values[i];
  }

  void clear(ConstView wire, std::span<float> values, const CodecContext&) const override {
    for (std::uint32_t place : open_entries(wire, head(values.size())).places) values[place] = 0;
  }

  void merge(View into, ConstView other, std::span<float> residual,
             const CodecContext& context) const override;

 private:
  static std::uint32_t letters_of(Algebra algebra) {
    if (algebra == Algebra::Mergeable) return letters("gtop");
    return algebra == Algebra::Divisible ? letters("stop") : letters("topk");
  }
  std::size_t chosen(std::size_t count) const { return chosen_.of(count); }
  Head head(std::size_t count) const { return {letters_, 0, count, chosen(count)}; }
  void finish(View wire, std::size_t count, bool finite) const {
    View body = body_of(wire);
    const std::size_t used = chosen(count) * sizeof(float), half = body.size() / 2;
    if (half > used) {
      std::memset(body.data() + used, 0, half - used);
      std::memset(body.data() + half + used, 0, half - used);
    }
    Head sealed = head(count);
    sealed.flags = finite ? 0 : kNotFinite;
    seal(wire, sealed);
  }

  const Chosen chosen_;
  const Round round_[1];
  const std::uint32_t letters_;
};

void TopK::merge(View into, ConstView other, std::span<float> residual, const CodecContext& context) const {
  Head mine;
  std::memcpy(&mine, into.data(), std::min(sizeof(mine), into.size()));
  const std::size_t count = mine.count, wanted = chosen(count);
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

}  // namespace

/// Lin et al., "Deep gradient compression", ICLR 2018, and others before; exactly k entries of each member.
CodecRow top_k() {
  return {"top_k",
          [](const plan::CodecPlan& plan) -> std::unique_ptr<Codec> {
            return std::make_unique<TopK>(plan, Algebra::Opaque);
          },
          true, true};
}

/// Shi et al., "A distributed synchronous SGD algorithm with global top-k sparsification for low bandwidth
/// networks", ICDCS 2019: merged two by two, k entries in all. Other than there, whoever merges keeps what he
/// drops, so that nothing is lost.
CodecRow gtop_k() {
  return {"gtop_k",
          [](const plan::CodecPlan& plan) -> std::unique_ptr<Codec> {
            return std::make_unique<TopK>(plan, Algebra::Mergeable);
          },
          true, true};
}

/// Balanced by construction, after Ok-Topk (Li and Hoefler, PPoPP 2022): everybody sends the largest entries
/// of each member's part to that member, who adds them up and sends the largest entries of the sum to all.
/// There parts are cut so that a global threshold leaves them equally many entries; here parts are equally
/// long, each with its share of the entries, so that wires have one size and nobody waits for a longer one.
CodecRow split_top_k() {
  return {"split_top_k",
          [](const plan::CodecPlan& plan) -> std::unique_ptr<Codec> {
            return std::make_unique<TopK>(plan, Algebra::Divisible);
          },
          true, true};
}

}  // namespace taxon::codec
