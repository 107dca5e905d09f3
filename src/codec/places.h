#pragma once

#include <cstdint>
#include <span>

#include "base/view.h"

namespace taxon::codec {

/// So many places among `count` values, ascending, in few bytes: of each how far it is from the one before,
/// in a byte (255: go on and read the next), or where places are dense a bit for each value.
struct PlacesShape {
  std::size_t count = 0, places = 0;
  std::size_t gap_bytes() const { return places + count / 255; }
  std::size_t bit_bytes() const { return (count + 7) / 8; }
  /// Of what write_places() fills: a function of the sizes alone.
  std::size_t bytes() const { return gap_bytes() < bit_bytes() ? gap_bytes() : bit_bytes(); }
};

/// REQUIRES: places ascend and are below shape.count; body.size() == shape.bytes().
void write_places(std::span<const std::uint32_t> places, const PlacesShape& shape,
                  std::span<std::uint8_t> body);
/// Throws Error{Transport} unless `body` names as many places below shape.count as there is room for.
void read_places(std::span<const std::uint8_t> body, const PlacesShape& shape,
                 std::span<std::uint32_t> places);

}  // namespace taxon::codec
