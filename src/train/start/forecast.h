#pragma once

#include "train/start/divided.h"
#include "train/start/memory_check.h"

namespace taxon::train {

/// What a rank of a model that is divided will hold and send.
struct Forecast {
  plan::ResolvedPlan resolved = {};  // of its part
  Divided divided = {};
  MemoryNeed memory = {};  // as require_memory() has it from the rank
  double sent = 0;  // bytes in a step: gradients and what passes hand on; the mean over its part's ranks
};

/// What ranks would find out of each other.
struct Surroundings {
  int node = 0;  // ranks of one; 0: no level asks
  bool share_memory = false;
};

/// Of the runtime's rank, before there are others: nothing travels. `model` is the whole one, and afterwards
/// what the rank holds of it. REQUIRES: is_divided(). Throws as divide().
Forecast forecast(comm::Runtime& runtime, model::Model& model, const TrainOptions& options,
                  Surroundings surroundings);

}  // namespace taxon::train
