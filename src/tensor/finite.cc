#include "tensor/finite.h"

#include <cstdint>
#include <cstring>

#include "base/isa.h"

namespace taxon::tensor {
namespace {

/// True if a value has every bit of `exponent` set. Blocks of a fixed size, which compilers vectorise, and an
/// early end.
template <class Bits>
struct AllBelow {
  static TAXON_INLINE bool run(ConstView values, Bits exponent) {
    constexpr std::size_t kBlock = 1024;
    const std::size_t count = values.size() / sizeof(Bits);
    const std::byte* next = values.data();
    auto bits_at = [&](std::size_t i) {
      Bits bits;
      std::memcpy(&bits, next + i * sizeof(Bits), sizeof(Bits));
      return bits;
    };
    std::size_t left = count;
    for (; left >= kBlock; left -= kBlock, next += kBlock * sizeof(Bits)) {
      Bits seen = 0;
      for (std::size_t i = 0; i < kBlock; ++i)
        seen = static_cast<Bits>(seen | ((bits_at(i) & exponent) == exponent ? 1 : 0));
      if (seen) return false;
    }
    for (std::size_t i = 0; i < left; ++i)
      if ((bits_at(i) & exponent) == exponent) return false;
    return true;
  }
};

}  // namespace

bool all_finite(DType type, ConstView values) {
  switch (type) {
    case DType::Float32:
      return run_on<AllBelow<std::uint32_t>>(best_isa(), values, 0x7f800000U);
    case DType::Float64:
      return run_on<AllBelow<std::uint64_t>>(best_isa(), values, 0x7ff0000000000000U);
    case DType::BFloat16:
      return run_on<AllBelow<std::uint16_t>>(best_isa(), values, 0x7f80U);
    default:
      return true;
  }
}

}  // namespace taxon::tensor
