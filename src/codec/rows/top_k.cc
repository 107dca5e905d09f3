#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "codec/collect.h"
#include "codec/entries.h"
#include "codec/rows/rows.h"
#include "codec/scan.h"
#include "codec/select.h"

namespace taxon::codec {
namespace {

/// The entries of largest magnitude.
class TopK final : public Codec {
 public:
  TopK(double density, Algebra algebra)
      : density_(density), round_{{algebra}}, letters_(letters_of(algebra)) {}

  std::span<const Round> rounds() const override { return round_; }
  Price price() const override { return {2, 5, density_, 4 + 8 * density_}; }
  std::size_t wire_bytes(int, const Extent& extent) const override {
    return entries_bytes(chosen(extent.count));
  }
  std::size_t scratch_bytes(const Extent& extent) const override {
    // Merging holds both lists' places, values and keys.
    const std::size_t both = 2 * chosen(extent.count);
    return std::max(select_scratch_bytes(extent.count, chosen(extent.count)),
                    2 * padded(both * sizeof(float)) + padded(both * sizeof(std::uint64_t)));
  }

  bool encode(int, std::span<float> values, View wire, Rest rest, const Use& use) const override {
    const auto [places, chosen_values] = entries_to_fill(wire, chosen(values.size()));
    const bool finite = select_largest(values, places, use.scratch, use.path);
    if (finite)
      for (std::size_t i = 0; i < places.size(); ++i) {
        chosen_values[i] = values[places[i]];
        if (rest == Rest::Keep) values[places[i]] = 0;
      }
    finish(wire, values.size(), finite);
    return finite;
  }

  void decode(ConstView wire, std::span<float> values, Into into, const Use&) const override {
    const Entries entries = open_entries(wire, head(values.size()));
    if (!entries.finite) return fill_not_finite(values);
    if (into == Into::Assign) std::fill(values.begin(), values.end(), 0.0F);
    for (std::size_t i = 0; i < entries.places.size(); ++i) values[entries.places[i]] += entries.values[i];
  }

  void clear(ConstView wire, std::span<float> values, const Use&) const override {
    for (std::uint32_t place : open_entries(wire, head(values.size())).places) values[place] = 0;
  }

  void merge(View into, ConstView other, std::span<float> rest, const Use& use) const override;

 private:
  struct Union {
    std::span<std::uint32_t> places;
    std::span<float> values;
    std::span<std::uint64_t> keys;
  };
  Union unite(const Entries& a, const Entries& b, View scratch) const;
  static std::uint32_t letters_of(Algebra algebra) {
    if (algebra == Algebra::Mergeable) return letters("gtop");
    return algebra == Algebra::Divisible ? letters("stop") : letters("topk");
  }
  std::size_t chosen(std::size_t count) const { return entries_of(count, density_); }
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

  const double density_;
  const Round round_[1];
  const std::uint32_t letters_;
};

/// Both lists, with equal places added up, in the order of places.
TopK::Union TopK::unite(const Entries& a, const Entries& b, View scratch) const {
  const std::size_t most = a.places.size() + b.places.size();
  const std::size_t bytes = padded(most * sizeof(float));
  auto places = as_span<std::uint32_t>(scratch.slice(0, most * sizeof(std::uint32_t)));
  auto values = as_span<float>(scratch.slice(bytes, most * sizeof(float)));
  auto keys = as_span<std::uint64_t>(scratch.slice(2 * bytes, most * sizeof(std::uint64_t)));
  std::size_t i = 0, j = 0, size = 0;
  while (i < a.places.size() || j < b.places.size()) {
    const bool from_a = j == b.places.size() || (i < a.places.size() && a.places[i] <= b.places[j]);
    const bool from_b = i == a.places.size() || (j < b.places.size() && b.places[j] <= a.places[i]);
    places[size] = from_a ? a.places[i] : b.places[j];
    values[size++] = from_a && from_b ? a.values[i] + b.values[j] : from_a ? a.values[i] : b.values[j];
    i += from_a ? 1 : 0;
    j += from_b ? 1 : 0;
  }
  return {places.first(size), values.first(size), keys.first(size)};
}

void TopK::merge(View into, ConstView other, std::span<float> rest, const Use& use) const {
  Head mine;
  std::memcpy(&mine, into.data(), std::min(sizeof(mine), into.size()));
  const std::size_t count = mine.count, wanted = chosen(count);
  const Entries a = open_entries(into, head(count)), b = open_entries(other, head(count));
  Union both = unite(a, b, use.scratch);
  bool finite = a.finite && b.finite && all_finite(both.values, use.path);
  if (!finite) return finish(into, count, false);
  for (std::size_t i = 0; i < both.keys.size(); ++i)
    both.keys[i] = key_of(std::bit_cast<std::uint32_t>(both.values[i]) & kMagnitude, both.places[i]);
  std::uint64_t least = 0;
  if (wanted > 0) {
    auto last = both.keys.begin() + static_cast<std::ptrdiff_t>(wanted - 1);
    std::nth_element(both.keys.begin(), last, both.keys.end(), std::greater<>());
    least = *last;
  }
  const auto [places, values] = entries_to_fill(into, wanted);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < both.places.size(); ++i) {
    const std::uint64_t key =
        key_of(std::bit_cast<std::uint32_t>(both.values[i]) & kMagnitude, both.places[i]);
    if (key >= least) {
      places[kept] = both.places[i];
      values[kept++] = both.values[i];
    } else if (!rest.empty()) {
      rest[both.places[i]] += both.values[i];
    }
  }
  finish(into, count, true);
}

}  // namespace

/// Lin et al., "Deep gradient compression", ICLR 2018, and others before; exactly k entries of each member.
CodecRow top_k() {
  return {"top_k",
          [](const plan::CodecPlan& plan) -> std::unique_ptr<Codec> {
            return std::make_unique<TopK>(plan.density, Algebra::Opaque);
          },
          true, true};
}

/// Shi et al., "A distributed synchronous SGD algorithm with global top-k sparsification for low bandwidth
/// networks", ICDCS 2019: merged two by two, k entries in all. Other than there, whoever merges keeps what he
/// drops, so that nothing is lost.
CodecRow gtop_k() {
  return {"gtop_k",
          [](const plan::CodecPlan& plan) -> std::unique_ptr<Codec> {
            return std::make_unique<TopK>(plan.density, Algebra::Mergeable);
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
            return std::make_unique<TopK>(plan.density, Algebra::Divisible);
          },
          true, true};
}

}  // namespace taxon::codec
