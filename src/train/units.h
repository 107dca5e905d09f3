#pragma once

#include <cstdint>
#include <string>

#include "plan/plan.h"

namespace taxon::train {

/// Units of what travels beside the buckets (whose units count from 0). Tags are keyed by unit, so these must
/// not collide.
inline constexpr std::uint32_t kAgreementUnit = 0x40000000;
inline constexpr std::uint32_t kVoteUnit = 0x40000001;
inline constexpr std::uint32_t kWeightsUnit = 0x40000002;

/// What a unit is, in words; empty for one that nobody uses.
std::string name_unit(std::int64_t unit, const plan::ResolvedPlan& plan);

}  // namespace taxon::train
