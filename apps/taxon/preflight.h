#pragma once

#include <string>
#include <vector>

#include "data/dataset.h"
#include "model/model.h"
#include "plan/catalogue.h"
#include "plan/plan.h"

namespace taxon::app {

/// Every name that a plan may use, from the tables.
plan::Catalogue catalogue();

/// The recipe with `overrides` laid over it; whatever is wrong with either, names and rows' keys included, is
/// one Error{Usage}.
/// Models are not asked: a profile may stand for one that this program lacks. check_run() asks for them.
plan::Plan read_recipe(const std::string& path, const std::vector<std::string>& overrides = {});
/// What check_plan() says of a plan that is to be run here, and what this build lacks for it.
std::vector<plan::Problem> check_run(const plan::Plan& plan, int world_size);

/// Throws Error{Output} before anything is done in vain, if `file` can't be written.
void require_writable(data::Storage& storage, const std::string& file);

/// Compute threads of one of `local_ranks` workers of this host.
int compute_threads(const plan::Plan& plan, int local_ranks);

/// What a rank trains on and with; throws Error{Data} or Error{Usage} with one clear line.
struct TrainingInputs {
  data::Datasets datasets;
  std::unique_ptr<model::Model> model;
};
TrainingInputs open_training_inputs(const plan::Plan& plan, const data::Storage& storage, int rank,
                                    int local_ranks);

/// Which keys of a plan are printed.
enum class Printed { Changes, All };

/// Prints the plan, resolved if all of it is asked for, the memory that each worker needs and the bytes that
/// it will send per step.
void print_dry_run(const plan::Plan& plan, int world_size, Printed keys);

}  // namespace taxon::app
