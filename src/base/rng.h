#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace taxon {

/// Philox4x32-10: four random words as a pure function of a counter and a key (Salmon et al., "Parallel
/// random numbers: as easy as 1, 2, 3", SC'11). Tested against the authors' known answers.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

/// The door of chance: a stream of random numbers that is a pure function of (seed, purpose, index), so that
/// what a rank or a sample draws does not depend on who else draws. `index` is a rank, an epoch or a sample.
/// Copying forks the stream. Its whole state is {key, position}: a checkpoint stores the position.
class Rng {
 public:
  using result_type = std::uint64_t;
  Rng(std::uint64_t seed, std::string_view purpose, std::uint64_t index = 0);

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type{0}; }
  result_type operator()();
  /// Uniform in [0, bound), without bias. REQUIRES: bound > 0.
  std::uint64_t below(std::uint64_t bound);
  /// Uniform in [0, 1).
  double uniform();

  /// Draws so far; `seek` continues a stored stream.
  std::uint64_t position() const { return position_; }
  void seek(std::uint64_t position) { position_ = position; }

 private:
  std::array<std::uint32_t, 2> key_{};
  std::uint64_t index_ = 0;
  std::uint64_t position_ = 0;
};

}  // namespace taxon
