#pragma once

#include <cstdint>
#include <span>

#include "base/isa.h"

namespace taxon::codec {

// float32 in 16 bits, rounded to the nearest, ties to even. What is too large becomes the largest finite
// number. REQUIRES: spans of equal size.

enum class Half { BFloat16, Float16 };
/// False: some value is not finite, and the halves say nothing.
bool narrow(std::span<const float> values, std::span<std::uint16_t> halves, Half kind, Isa path);
/// values := or += halves.
void widen(std::span<const std::uint16_t> halves, std::span<float> values, Half kind, bool add, Isa path);
/// values -= halves.
void subtract(std::span<const std::uint16_t> halves, std::span<float> values, Half kind, Isa path);

}  // namespace taxon::codec
