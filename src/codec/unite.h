#pragma once

#include <cstdint>
#include <span>

#include "base/view.h"
#include "codec/entries.h"

namespace taxon::codec {

/// Two lists of entries as one, with equal places added up, in the order of places.
struct Union {
  std::span<std::uint32_t> places;
  std::span<float> values;
  std::span<std::uint64_t> keys;  // of order, see collect.h
};
/// For lists of so many entries together.
std::size_t unite_scratch_bytes(std::size_t entries);
/// REQUIRES: places ascend; scratch of unite_scratch_bytes(), aligned to 64.
Union unite(const Entries& a, const Entries& b, View scratch);
/// Calls keep(place, value) for the `wanted` largest entries and drop(place, value) for the others, in the
/// order of places. REQUIRES: values are finite; wanted <= places.size().
template <class Keep, class Drop>
void divide(const Union& both, std::size_t wanted, Keep&& keep, Drop&& drop);
/// The least key of the `wanted` largest entries; keys of entries are then in another order.
std::uint64_t least_kept(const Union& both, std::size_t wanted);
std::uint64_t key_of_entry(std::uint32_t place, float value);

template <class Keep, class Drop>
void divide(const Union& both, std::size_t wanted, Keep&& keep, Drop&& drop) {
  const std::uint64_t least = least_kept(both, wanted);
  for (std::size_t i = 0; i < both.places.size(); ++i)
    if (wanted > 0 && key_of_entry(both.places[i], both.values[i]) >= least)
      keep(both.places[i], both.values[i]);
    else
      drop(both.places[i], both.values[i]);
}

}  // namespace taxon::codec
