#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/cluster.h"
#include "plan/plan.h"

namespace taxon::faults {

/// What a run looks like, before anything goes wrong.
struct JobShape {
  int ranks = 0;
  std::string layout;                 // of the ranks over hosts: a row of the layout table
  std::vector<std::string> settings;  // of the plan: "key.path=value"
};

/// Follows from the seed alone: 2 to 8 ranks, a layout, and a value for every axis of the table in shape.cc.
/// Not every draw is legal; `attempt` counts the draws for one seed.
JobShape draw_shape(std::uint64_t seed, int attempt);

/// The recipe with the shape's settings. Throws Error{Usage} if the recipe does not know one.
plan::Plan lay_over(const plan::Plan& recipe, const JobShape& shape, const plan::Catalogue& known);
/// The cluster without faults.
plan::ClusterModel make_cluster(const JobShape& shape);

/// "5 ranks, pairs: exchange.order=priority, ..."
std::string describe(const JobShape& shape);

}  // namespace taxon::faults
