#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/model.h"
#include "train/observer.h"
#include "train/start/divided.h"
#include "train/train.h"

namespace taxon::train {

/// What a rank holds at least while it trains, in bytes.
struct MemoryNeed {
  ArenaBytes arenas;
  std::size_t activations = 0;  // that passes keep from one segment to the next
  std::int64_t samples = 0;     // whose activations these are
  std::size_t total() const { return arenas.total() + activations; }
};

/// "weights 1 MiB, gradients 1 MiB, optimiser state 0 B, activations of 4 samples 2 MiB".
std::string describe(const MemoryNeed& need);

/// Activations are those that segments say they put out; what lies inside of them is not known. `spec` is
/// the divided model's, `divided` null where ranks have a whole model. `workers`: those that share a batch.
MemoryNeed memory_need(const plan::Plan& plan, ArenaBytes arenas, const model::ModelSpec& spec,
                       const Divided* divided, plan::MeshPosition position, std::int64_t global_batch,
                       int workers);

/// What a rank tells all others before the arenas are made.
std::vector<std::byte> pack(const RankMemory& memory, const MemoryNeed& need);
/// Of what all ranks told, in their order: throws Error{Resources} where ranks need more than the memory that
/// they share has, listing all such memories with the figures, and Error{Mismatch} for what no rank has.
void require_memory(const std::vector<std::vector<std::byte>>& told);

}  // namespace taxon::train
