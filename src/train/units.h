#pragma once

#include <cstdint>

namespace taxon::train {

/// Units of what travels beside the buckets (whose units count from 0). Tags are keyed by unit, so these must
/// not collide.
inline constexpr std::uint32_t kAgreementUnit = 0x40000000;
inline constexpr std::uint32_t kVoteUnit = 0x40000001;
inline constexpr std::uint32_t kWeightsUnit = 0x40000002;

}  // namespace taxon::train
