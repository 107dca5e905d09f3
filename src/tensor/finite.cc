#include "tensor/finite.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace taxon::tensor {
namespace {

/// True if no value has every bit of `exponent` set. Of magnitudes these are the largest: adding what
/// `exponent` lacks to the highest bit sets that bit for them, and for no other. Lanes, which compilers
/// vectorise, and an early end.
template <class Bits>
struct AllBelow {
  static TAXON_INLINE bool run(ConstView values, Bits exponent) {
    constexpr auto kHighest = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
    constexpr std::size_t kLanes = 256 / sizeof(Bits);  // several sums: one alone would wait for itself
    constexpr std::size_t kBlock = 128 * kLanes;        // values between looks whether to go on
    const auto missing = static_cast<Bits>(kHighest - exponent);
    const std::size_t count = values.size() / sizeof(Bits);
    const std::byte* next = values.data();
    Bits seen[kLanes] = {};
    auto look = [&](std::size_t at, std::size_t lane) {
      Bits bits;
      std::memcpy(&bits, next + at * sizeof(Bits), sizeof(Bits));
      seen[lane] = static_cast<Bits>(seen[lane] | static_cast<Bits>((bits & (kHighest - 1)) + missing));
    };
    auto all_below = [&] {
      Bits all = 0;
      for (Bits lane : seen) all = static_cast<Bits>(all | lane);
      return all < kHighest;
    };
    std::size_t i = 0;
    while (i + kLanes <= count) {
      for (const std::size_t end = std::min(i + kBlock, count); i + kLanes <= end; i += kLanes)
        for (std::size_t lane = 0; lane < kLanes; ++lane) look(i + lane, lane);
      if (!all_below()) return false;
    }
    for (; i < count; ++i) look(i, i % kLanes);
    return all_below();
  }
};

}  // namespace

bool all_finite(DType type, ConstView values, Isa path) {
  switch (type) {
    case DType::Float32:
      return run_on<AllBelow<std::uint32_t>>(path, values, 0x7f800000U);
    case DType::Float64:
      return run_on<AllBelow<std::uint64_t>>(path, values, 0x7ff0000000000000U);
    case DType::BFloat16:
      return run_on<AllBelow<std::uint16_t>>(path, values, 0x7f80U);
    default:
      return true;
  }
}

}  // namespace taxon::tensor
