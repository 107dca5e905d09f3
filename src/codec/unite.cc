#include "codec/unite.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "codec/collect.h"
#include "codec/scan.h"

namespace taxon::codec {

std::size_t unite_scratch_bytes(std::size_t entries) {
  return 2 * round_to_line(entries * sizeof(float)) + round_to_line(entries * sizeof(std::uint64_t));
}

Union unite(const Entries& a, const Entries& b, View scratch) {
  const std::size_t most = a.places.size() + b.places.size();
  const std::size_t bytes = round_to_line(most * sizeof(float));
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

std::uint64_t key_of_entry(std::uint32_t place, float value) {
  return key_of(std::bit_cast<std::uint32_t>(value) & kMagnitude, place);
}

std::uint64_t least_kept(const Union& both, std::size_t wanted) {
  if (wanted == 0) return 0;
  for (std::size_t i = 0; i < both.keys.size(); ++i)
    both.keys[i] = key_of_entry(both.places[i], both.values[i]);
  auto last = both.keys.begin() + static_cast<std::ptrdiff_t>(wanted - 1);
  std::nth_element(both.keys.begin(), last, both.keys.end(), std::greater<>());
  return *last;
}

}  // namespace taxon::codec
