#pragma once

#include "job/recipes.h"
#include "plan/axes.h"
#include "plan/legality.h"
#include "plan/plan.h"

/// A run as data: its recipes in YAML, what is wrong with them and what they mean. A program's own rows go
/// along as `Extensions`.
namespace taxon {

using exchange::Extensions;
using job::catalogue;
using job::check_run;
using job::find_recipe;
using job::parse_recipe;
using job::read_recipe;
using plan::axes_of;
using plan::Plan;

}  // namespace taxon
