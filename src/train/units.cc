#include "train/units.h"

#include <fmt/format.h>

#include "exchange/topology.h"

namespace taxon::train {

std::string name_unit(std::int64_t unit, const plan::ResolvedPlan& plan) {
  if (unit >= 0 && unit < static_cast<std::int64_t>(plan.buckets.size()))
    return fmt::format("bucket {} ({})", unit, plan::describe(plan.buckets[static_cast<std::size_t>(unit)]));
  if (unit == kAgreementUnit) return "an agreement of all ranks";
  if (unit == kVoteUnit) return "the step's vote";
  if (unit == kWeightsUnit) return "the optimiser's state";
  if (unit == exchange::kTotalUnit) return "the gradient's norm";
  return "";
}

}  // namespace taxon::train
