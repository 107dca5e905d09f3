#pragma once

#include "job/recipes.h"
#include "plan/axes.h"
#include "plan/legality.h"
#include "plan/plan.h"

/// A run as data: its recipes in YAML, what is wrong with them and what they mean.
namespace taxon {

using job::check_run;
using job::find_recipe;
using job::read_recipe;
using plan::Plan;

}  // namespace taxon
