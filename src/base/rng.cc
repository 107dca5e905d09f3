#include "base/rng.h"

#include "base/check.h"

namespace taxon {

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    std::uint64_t even = std::uint64_t{0xD2511F53U} * counter[0];
    std::uint64_t odd = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(odd >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(odd),
               static_cast<std::uint32_t>(even >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(even)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

namespace {

// FNV-1a, so that a purpose's stream is the same on every machine and in every version.
std::uint64_t hash(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325U;
  for (char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return h;
}

}  // namespace

Rng::Rng(std::uint64_t seed, std::string_view purpose, std::uint64_t index) : index_(index) {
  std::uint64_t p = hash(purpose);
  auto key = philox4x32({static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                         static_cast<std::uint32_t>(p), static_cast<std::uint32_t>(p >> 32)},
                        {0x7461786fU, 0x6e000000U});
  key_ = {key[0], key[1]};
}

Rng::result_type Rng::operator()() {
  auto words = philox4x32({static_cast<std::uint32_t>(position_), static_cast<std::uint32_t>(position_ >> 32),
                           static_cast<std::uint32_t>(index_), static_cast<std::uint32_t>(index_ >> 32)},
                          key_);
  ++position_;
  return (std::uint64_t{words[1]} << 32) | words[0];
}

std::uint64_t Rng::below(std::uint64_t bound) {
  TAXON_CHECK(bound > 0);
  // Lemire's multiply-shift with rejection: the low half of the product is uniform once the short interval is
  // refused.
  std::uint64_t threshold = (0 - bound) % bound;
  for (;;) {
    auto product = static_cast<unsigned __int128>((*this)()) * bound;
    if (static_cast<std::uint64_t>(product) >= threshold) return static_cast<std::uint64_t>(product >> 64);
  }
}

double Rng::uniform() { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }

}  // namespace taxon
