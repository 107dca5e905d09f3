#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace taxon {

/// Element type of a buffer.
enum class DType : std::uint8_t { Float32, Float64, BFloat16, Int32, Int64, UInt8 };

/// Bytes of one element.
constexpr std::size_t size_of(DType type) {
  constexpr std::size_t kSizes[] = {4, 8, 2, 4, 8, 1};
  return kSizes[static_cast<std::size_t>(type)];
}

/// "float32", "bfloat16", ...: the words of plans and reports.
constexpr std::string_view to_string(DType type) {
  constexpr std::string_view kNames[] = {"float32", "float64", "bfloat16", "int32", "int64", "uint8"};
  return kNames[static_cast<std::size_t>(type)];
}

/// The upper half of a float32. Arithmetic is done in float32 and rounded to nearest even.
struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value) {
    auto word = std::bit_cast<std::uint32_t>(value);
    if ((word & 0x7fffffffU) > 0x7f800000U)
      bits = static_cast<std::uint16_t>((word >> 16) | 0x40U);  // a NaN stays a (quiet) NaN
    else
      bits = static_cast<std::uint16_t>((word + 0x7fffU + ((word >> 16) & 1U)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

/// Calls `body` with a value of the C++ type of a floating-point `type`: dispatch(t, [&](auto zero) { using T
/// = decltype(zero); ... }). REQUIRES: is_floating(type).
constexpr bool is_floating(DType type) {
  return type == DType::Float32 || type == DType::Float64 || type == DType::BFloat16;
}
template <class Body>
auto dispatch(DType type, Body&& body) {
  switch (type) {
    case DType::Float64:
      return body(double{});
    case DType::BFloat16:
      return body(BFloat16{});
    default:
      return body(float{});
  }
}

}  // namespace taxon
