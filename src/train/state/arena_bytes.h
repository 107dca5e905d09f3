#pragma once

#include "exchange/layout/bucket.h"
#include "optim/rule.h"
#include "plan/plan.h"
#include "train/observer.h"

namespace taxon::train {

/// Bytes of the arenas that State makes of a layout, which knows what this rank owns, and of so many versions
/// of the weights, before it makes them.
ArenaBytes arena_bytes(const plan::Plan& plan, const exchange::Layout& layout, const optim::RuleRow& rule,
                       int versions = 1);

}  // namespace taxon::train
