#pragma once

#include <cstdint>

#include "plan/plan.h"

namespace taxon::train {

// A run may go on from a checkpoint with another exchange. What of it matters beyond the next step:

/// Whether both cut gradients into the same buckets: those of the checkpoint are kept then.
bool cuts_alike(const plan::ExchangePlan& before, const plan::ExchangePlan& now);

/// For a checkpoint with a delayed step, whose sums are there and whose update is not. Throws Error{Usage} if
/// `plan` has no place for them.
void require_place_for_delayed(const plan::ExchangePlan& plan);

/// For replicas that had done `steps` steps: the answers that they wait for are due when the checkpoint's
/// plan says. Throws Error{Usage} if the plan of now says something else.
void require_same_meetings(const plan::LevelPlan& before, const plan::LevelPlan& now, std::int64_t steps);

}  // namespace taxon::train
