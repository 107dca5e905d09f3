#pragma once

#include <cstdint>
#include <span>

#include "base/cache_line.h"
#include "base/view.h"

namespace taxon::codec {

/// What stands before the body of a wire that is not linear. Bodies begin at multiples of its size.
struct Head {
  std::uint32_t codec = 0;  // four letters
  std::uint32_t flags = 0;
  std::uint64_t count = 0;    // values that were encoded
  std::uint64_t entries = 0;  // of the body, as the codec counts
  std::uint64_t checksum = 0;
};
static_assert(sizeof(Head) == 32);

/// The values were not all finite, and the body says nothing.
inline constexpr std::uint32_t kNotFinite = 1;

constexpr std::uint32_t letters(const char (&name)[5]) {
  std::uint32_t word = 0;
  for (int i = 0; i < 4; ++i)
    word |= static_cast<std::uint32_t>(static_cast<unsigned char>(name[i])) << 8 * i;
  return word;
}

/// The bytes behind the head.
View body_of(View wire);
/// Writes the head in front of a body that is complete; for kNotFinite the body is zeroed.
void seal(View wire, Head head);
/// Seals a wire whose body is written from front to back: the checksum reads what is written while it is in
/// the cache.
class Sealing {
 public:
  /// `head` has no flags.
  Sealing(View wire, const Head& head);
  /// So many bytes of the body are written, from its beginning.
  void reach(std::size_t bytes);
  /// All are. The same wire as by seal().
  void finish();
  /// The values were not finite: whatever is written, the body says nothing.
  void give_up();

 private:
  View wire_;
  Head head_;
  std::size_t reached_ = 0;
  alignas(64) std::byte state_[576];
};
/// Reads the head of a wire that somebody sent. Throws Error{Transport} unless it has `bytes`, and its codec,
/// count, entries and checksum are right; `expected.checksum` and flags are ignored.
struct Opened {
  ConstView body;
  bool finite = true;
};
Opened open(ConstView wire, std::size_t bytes, const Head& expected);

/// What values become where gradients were not finite.
void fill_not_finite(std::span<float> values);

/// 64 random bits from 64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
/// 2014).
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

}  // namespace taxon::codec
