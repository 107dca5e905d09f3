#pragma once

#include <optional>
#include <string>

#include "plan/catalogue.h"
#include "plan/plan.h"

namespace taxon::plan {

/// How many updates servers make, on average, while a gradient is computed: the workers (or groups of them
/// that contribute as one) for each contribution that an update takes. 1 where workers keep step, or where no
/// server updates with gradients.
double asynchrony(const Plan& plan, int world_size, const Catalogue& known);

/// The momentum of the optimiser at the servers. Asynchrony of g adds momentum of its own (Mitliagkas et al.,
/// arXiv 1605.09774): mu acts like 1 - (1 - mu) / g. Unless the plan insists on its momentum, what is given
/// is the sum of both, and the optimiser's own is max(0, 1 - (1 - momentum) g).
double momentum_at_servers(const Plan& plan, int world_size, const Catalogue& known);

/// What a user should know of it, in one sentence: that it was lowered, or that the plan insists on more than
/// asynchrony leaves room for. Empty if neither is so.
std::optional<std::string> momentum_notice(const Plan& plan, int world_size, const Catalogue& known);

}  // namespace taxon::plan
