#pragma once

#include <string>
#include <vector>

#include "data/dataset.h"
#include "model/model.h"
#include "plan/plan.h"

namespace taxon::app {

/// Every name that a plan may use, from the tables.
plan::KnownNames known_names();
/// What check_plan() says of a plan that is to be run here, and what this build lacks for it.
std::vector<plan::Problem> check_run(const plan::Plan& plan, int world_size);

/// What may be done with an output folder that holds a run already.
enum class Existing { Refuse, Resume, Overwrite };

/// Makes the folder, or finds why it can't be used. Throws Error{Usage} if a run is in it and `existing`
/// refuses, Error{Output} if it can't be written. Overwrite removes what an earlier run left there, and
/// nothing else.
void prepare_output(data::Storage& storage, const std::string& folder, Existing existing);

/// Throws Error{Output} before anything is done in vain, if `file` can't be written.
void require_writable(data::Storage& storage, const std::string& file);

/// Compute threads of one of `local_ranks` workers of this host.
int compute_threads(const plan::Plan& plan, int local_ranks);

/// What a rank trains on and with; throws Error{Data} or Error{Usage} with one clear line.
struct Ingredients {
  data::Datasets datasets;
  std::unique_ptr<model::Model> model;
};
Ingredients open_ingredients(const plan::Plan& plan, const data::Storage& storage, int rank, int local_ranks);

/// Prints the resolved plan, the memory that each worker needs and the bytes that it will send per step.
void print_dry_run(const plan::Plan& plan, int world_size);

}  // namespace taxon::app
