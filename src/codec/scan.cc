#include "codec/scan.h"

#include <bit>

#include "base/check.h"

namespace taxon::codec {
namespace {

struct Largest {
  static TAXON_INLINE std::uint32_t run(const float* values, std::size_t count) {
    // Several running maxima: one alone would wait for itself.
    constexpr std::size_t kLanes = 64;
    std::uint32_t most[kLanes] = {};
    std::size_t i = 0;
    for (; i + kLanes <= count; i += kLanes)
      for (std::size_t l = 0; l < kLanes; ++l) {
        const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(values[i + l]) & kMagnitude;
        most[l] = most[l] > magnitude ? most[l] : magnitude;
      }
    for (; i < count; ++i) {
      const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(values[i]) & kMagnitude;
      most[0] = most[0] > magnitude ? most[0] : magnitude;
    }
    std::uint32_t all = 0;
    for (std::uint32_t lane : most) all = all > lane ? all : lane;
    return all;
  }
};

struct Add {
  static TAXON_INLINE void run(const float* __restrict terms, float* __restrict sum, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) sum[i] += terms[i];
  }
};

struct AddWithMomentum {
  static TAXON_INLINE void run(const float* __restrict gradient, float momentum, float* __restrict velocity,
                               float* __restrict sum, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const float v = momentum * velocity[i] + gradient[i];
      velocity[i] = v;
      sum[i] += v;
    }
  }
};

struct Momentum {
  static TAXON_INLINE void run(const float* __restrict gradient, float momentum, float* __restrict velocity,
                               std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) velocity[i] = momentum * velocity[i] + gradient[i];
  }
};

}  // namespace

std::uint32_t largest_magnitude(std::span<const float> values, Isa path) {
  return run_on<Largest>(path, values.data(), values.size());
}

void add(std::span<const float> terms, std::span<float> sum, Isa path) {
  TAXON_CHECK(terms.size() == sum.size(), terms.size(), " terms for ", sum.size());
  run_on<Add>(path, terms.data(), sum.data(), sum.size());
}

void add_with_momentum(std::span<const float> gradient, float momentum, std::span<float> velocity, Isa path) {
  TAXON_CHECK(gradient.size() == velocity.size(), gradient.size(), " and ", velocity.size());
  run_on<Momentum>(path, gradient.data(), momentum, velocity.data(), velocity.size());
}

void add_with_momentum(std::span<const float> gradient, float momentum, std::span<float> velocity,
                       std::span<float> sum, Isa path) {
  TAXON_CHECK(gradient.size() == sum.size() && velocity.size() == sum.size(), gradient.size(), ", ",
              velocity.size(), " and ", sum.size());
  run_on<AddWithMomentum>(path, gradient.data(), momentum, velocity.data(), sum.data(), sum.size());
}

}  // namespace taxon::codec
