#pragma once

#include <cstdint>
#include <span>

#include "base/view.h"
#include "codec/wire.h"

namespace taxon::codec {

/// A wire of entries: places, ascending, then their values.
struct Entries {
  std::span<const std::uint32_t> places;
  std::span<const float> values;
  bool finite = true;
};
struct EntriesToFill {
  std::span<std::uint32_t> places;
  std::span<float> values;
};

constexpr std::size_t entries_bytes(std::size_t entries) {
  return sizeof(Head) + 2 * round_to_line(entries * sizeof(float));
}
EntriesToFill entries_to_fill(View wire, std::size_t entries);
/// Throws Error{Transport} unless every place is below `head.count`, and larger than the one before.
Entries open_entries(ConstView wire, const Head& head);

/// A wire of places alone.
constexpr std::size_t places_bytes(std::size_t entries) {
  return sizeof(Head) + round_to_line(entries * sizeof(std::uint32_t));
}
/// As open_entries(), without values.
Entries open_places(ConstView wire, const Head& head);

}  // namespace taxon::codec
