#pragma once

#include <string>

#include "exchange/extensions.h"
#include "job/inputs.h"
#include "plan/plan.h"

namespace taxon::planner {

/// Which keys of a plan are printed.
enum class Printed { Changes, All };

/// The plan, resolved if all of it is asked for, its place on the axes, the memory that each worker needs and
/// the bytes that it will send per step, as text. Opens data and model, and measures a pass. Where ranks hold
/// parts of the model nothing is measured: each stage is divided as a run does it, memory is what a run asks
/// for in its check, and bytes are those of gradients and of passes. `own`: what the plan names beside rows
/// of the tables. Throws as open_training_inputs() and train::divide().
std::string dry_run(const plan::Plan& plan, int world_size, Printed keys,
                    const exchange::Extensions& own = {});

/// Throws as train::divide() would on the first rank, where ranks hold parts of the model. `training`'s is
/// divided from then on.
void require_divisible(const plan::Plan& plan, const job::TrainingInputs& training, int world_size,
                       const exchange::Extensions& own = {});

}  // namespace taxon::planner
