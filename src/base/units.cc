#include "base/units.h"

#include <fmt/format.h>

namespace taxon {

std::string format_bytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  // What would round to 1024.0 of a unit is 1.0 of the next.
  while (bytes >= (unit == 0 ? 1023.5 : 1023.95) && unit + 1 < std::size(kUnits)) bytes /= 1024, ++unit;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

std::string format_seconds(double seconds) {
  if (seconds >= 3600) {
    auto minutes = static_cast<long>(seconds / 60);
    return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
  }
  if (seconds >= 59.95) {
    auto whole = static_cast<long>(seconds + 0.05);
    return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  }
  if (seconds >= 0.999995) return fmt::format("{:.1f} s", seconds);
  if (seconds >= 0.99995e-3) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.1f} us", seconds * 1e6);
}

std::string format_milliseconds(double seconds) { return fmt::format("{:.3f}", seconds * 1e3); }

}  // namespace taxon
