#pragma once

#include <string>

#include "model/model.h"
#include "train/observer.h"
#include "train/start/divided.h"
#include "train/sync/agreement.h"

namespace taxon::train {

/// What a rank holds at least while it trains, in bytes.
struct MemoryNeed {
  ArenaBytes arenas;
  std::size_t activations = 0;  // that passes keep from one segment to the next
  std::int64_t samples = 0;     // whose activations these are
  std::size_t total() const { return arenas.total() + activations; }
};

/// Activations are those that segments say they put out; what lies inside of them is not known. `spec` is
/// the divided model's, `divided` null where ranks have a whole model. `workers`: those that share a batch.
MemoryNeed memory_need(const plan::Plan& plan, ArenaBytes arenas, const model::ModelSpec& spec,
                       const Divided* divided, plan::MeshPosition position, std::int64_t global_batch,
                       int workers);

/// Collective, before the arenas are made: throws Error{Resources} at every rank where ranks need more than
/// the memory that they share has, listing all such memories with the figures.
task::Task<void> require_memory(Agreement* everybody, const RankMemory* here, const MemoryNeed* need);

}  // namespace taxon::train
