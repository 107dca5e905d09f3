// Ranks that know the secret and lie (control/lies.h), by the thousand from seeds. Deterministic.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "control/lies.h"

namespace taxon::control {
namespace {

void try_seeds(const char* purpose, void (*lie)(const Draw&)) {
  constexpr std::uint64_t kRounds = 1500;
  for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed, purpose);
    EXPECT_NO_THROW(lie([&](std::uint64_t bound) { return rng.below(bound); }));
  }
}

TEST(ControlFuzz, RankZeroOutlivesARankThatLiesAndBlamesNobodyElse) {
  try_seeds("a rank that lies", lie_to_rank_zero);
}

TEST(ControlFuzz, AFirstMessageThatLiesIsTurnedAwayOrEndsTheJoin) {
  try_seeds("a hello that lies", lie_in_first_messages);
}

TEST(ControlFuzz, ARankOutlivesARankZeroThatLies) { try_seeds("a rank 0 that lies", lie_as_rank_zero); }

}  // namespace
}  // namespace taxon::control
