#pragma once

#include <cstdint>
#include <span>

#include "base/isa.h"
#include "base/view.h"
#include "tensor/finite.h"

namespace taxon::codec {

/// The magnitude of a float32 as an integer: the order of magnitudes, with infinity and NaN above all else.
inline constexpr std::uint32_t kMagnitude = 0x7fffffffU;
inline constexpr std::uint32_t kInfinity = 0x7f800000U;

/// Has the highest bit where a magnitude is infinite or NaN, and only there: ored over values it says whether
/// all are finite.
constexpr std::uint32_t beyond_finite(std::uint32_t magnitude) {
  return magnitude + (0x80000000U - kInfinity);
}

/// The largest magnitude; 0 for no values.
std::uint32_t largest_magnitude(std::span<const float> values, Isa path);
/// True if none is infinite or NaN.
inline bool all_finite(std::span<const float> values, Isa path) {
  return tensor::all_finite(DType::Float32, as_const_view(values), path);
}
/// sum += terms.
void add(std::span<const float> terms, std::span<float> sum, Isa path);
/// velocity := momentum velocity + gradient.
void add_with_momentum(std::span<const float> gradient, float momentum, std::span<float> velocity, Isa path);
/// velocity := momentum velocity + gradient; sum += velocity (momentum correction).
void add_with_momentum(std::span<const float> gradient, float momentum, std::span<float> velocity,
                       std::span<float> sum, Isa path);

}  // namespace taxon::codec
