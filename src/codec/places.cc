#include "codec/places.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace taxon::codec {
namespace {

constexpr std::uint32_t kGoOn = 255;

bool by_gaps(const PlacesShape& shape) { return shape.bytes() == shape.gap_bytes(); }

[[noreturn]] void refuse() {
  throw Error(ErrorKind::Transport, "a question names places that are not there, or too few or too many");
}

}  // namespace

void write_places(std::span<const std::uint32_t> places, const PlacesShape& shape,
                  std::span<std::uint8_t> body) {
  std::fill(body.begin(), body.end(), std::uint8_t{0});
  if (!by_gaps(shape)) {
    for (const std::uint32_t place : places)
      body[place / 8] = static_cast<std::uint8_t>(body[place / 8] | 1U << place % 8);
    return;
  }
  std::size_t at = 0;
  std::uint32_t next = 0;
  for (const std::uint32_t place : places) {
    std::uint32_t gap = place - next;
    for (; gap >= kGoOn; gap -= kGoOn) body[at++] = kGoOn;
    body[at++] = static_cast<std::uint8_t>(gap);
    next = place + 1;
  }
}

void read_places(std::span<const std::uint8_t> body, const PlacesShape& shape,
                 std::span<std::uint32_t> places) {
  std::size_t found = 0;
  if (!by_gaps(shape)) {
    for (std::size_t i = 0; i < body.size(); ++i)
      for (std::uint32_t bits = body[i]; bits != 0; bits &= bits - 1) {
        const std::size_t place = 8 * i + static_cast<std::size_t>(std::countr_zero(bits));
        if (place >= shape.count || found == places.size()) refuse();
        places[found++] = static_cast<std::uint32_t>(place);
      }
    if (found != places.size()) refuse();
    return;
  }
  std::uint64_t next = 0;
  for (std::size_t at = 0; found < places.size(); ++at) {
    if (at == body.size()) refuse();
    next += body[at];
    if (body[at] == kGoOn) continue;
    if (next >= shape.count) refuse();
    places[found++] = static_cast<std::uint32_t>(next++);
  }
}

}  // namespace taxon::codec
