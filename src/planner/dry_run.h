#pragma once

#include <string>

#include "exchange/extensions.h"
#include "plan/plan.h"

namespace taxon::planner {

/// Which keys of a plan are printed.
enum class Printed { Changes, All };

/// The plan, resolved if all of it is asked for, its place on the axes, the memory that each worker needs and
/// the bytes that it will send per step, as text. Opens data and model, and measures a pass. `own`: what the
/// plan names beside rows of the tables. Throws as open_training_inputs().
std::string dry_run(const plan::Plan& plan, int world_size, Printed keys,
                    const exchange::Extensions& own = {});

}  // namespace taxon::planner
