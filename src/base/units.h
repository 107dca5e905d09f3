#pragma once

#include <cstddef>
#include <string>

namespace taxon {

constexpr std::size_t operator""_KiB(unsigned long long n) { return n << 10; }
constexpr std::size_t operator""_MiB(unsigned long long n) { return n << 20; }
constexpr std::size_t operator""_GiB(unsigned long long n) { return n << 30; }

/// "12.4 MiB", for people.
std::string format_bytes(double bytes);
/// "1 min 12 s", "3.21 ms", for people.
std::string format_seconds(double seconds);
/// In milliseconds, to the microsecond, without a unit: "1.234".
std::string format_milliseconds(double seconds);

}  // namespace taxon
