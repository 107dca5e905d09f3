#include "train/start/memory_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/units.h"
#include "comm/told.h"
#include "program/check.h"
#include "train/bytes.h"

namespace taxon::train {
namespace {

std::int64_t divided_up(std::int64_t all, std::int64_t parts) { return (all + parts - 1) / parts; }

/// Of ranks that share a memory, in the order in which each tells its own.
enum Figure { Available, Weights, Gradients, Optimiser, Activations, Samples, Figures };
struct Shared {
  std::vector<int> ranks;
  std::array<std::int64_t, Figures> sum{};  // of what is available the least
  std::int64_t total() const { return sum[Weights] + sum[Gradients] + sum[Optimiser] + sum[Activations]; }
};

std::string bytes(std::size_t count) { return format_bytes(static_cast<double>(count)); }

/// Those that one of the rank's stages holds at once, at most: others hold the same ones.
std::int64_t micro_batches_under_way(const program::Program& program, int rank) {
  const std::vector<program::StageMemory> memory = program::stage_memory(program);
  int most = 0;
  for (int stage = 0; stage < program.stages; ++stage)
    if (program.rank_at(stage) == rank)
      most = std::max(most, memory[static_cast<std::size_t>(stage)].activations);
  return most;
}

std::string describe(const Shared& shared) {
  const auto of = [&](Figure figure) { return static_cast<std::size_t>(shared.sum[figure]); };
  const MemoryNeed need{{of(Weights), of(Gradients), of(Optimiser)}, of(Activations), shared.sum[Samples]};
  const std::string who = shared.ranks.size() == 1
                              ? fmt::format("rank {} needs", shared.ranks.front())
                              : fmt::format("ranks {} need", fmt::join(shared.ranks, ", "));
  return fmt::format("{} at least {} and may have {} ({})", who, bytes(need.total()), bytes(of(Available)),
                     train::describe(need));
}

}  // namespace

std::string describe(const MemoryNeed& need) {
  std::string words = fmt::format("weights {}, gradients {}, optimiser state {}", bytes(need.arenas.weights),
                                  bytes(need.arenas.gradients), bytes(need.arenas.optimiser));
  if (need.activations > 0)
    words += fmt::format(", activations of {} samples {}", need.samples, bytes(need.activations));
  return words;
}

MemoryNeed memory_need(const plan::Plan& plan, ArenaBytes arenas, const model::ModelSpec& spec,
                       const Divided* divided, plan::MeshPosition position, std::int64_t global_batch,
                       int workers) {
  const auto pipeline = static_cast<std::size_t>(position.pipeline);
  if (divided)  // some layers' outputs are whole on every member
    return {arenas, static_cast<std::size_t>(kept_activations(*divided, plan)[pipeline] / plan.mesh.tensor),
            divided->micro_batch() * micro_batches_under_way(divided->program, position.pipeline)};
  if (position.data >= workers) return {arenas};  // a server
  const std::int64_t samples = divided_up(divided_up(global_batch, workers), plan.batch.micro_batches);
  std::int64_t outputs = 0;
  for (const model::Segment& segment : spec.segments) outputs += segment.outputs;
  return {arenas, static_cast<std::size_t>(samples * outputs) * size_of(plan.precision.compute), samples};
}

std::vector<std::byte> pack(const RankMemory& memory, const MemoryNeed& need) {
  Packer packer;
  packer.text(memory.name);
  for (std::uint64_t bytes : {memory.available, need.arenas.weights, need.arenas.gradients,
                              need.arenas.optimiser, need.activations})
    packer.number(static_cast<std::int64_t>(std::min<std::uint64_t>(bytes, comm::kMostTold)));
  packer.number(need.samples);
  return packer.take();
}

void require_memory(const std::vector<std::vector<std::byte>>& told) {
  std::map<std::string, Shared> memories;
  for (int rank = 0; rank < static_cast<int>(told.size()); ++rank) {
    Unpacker unpacker(told[static_cast<std::size_t>(rank)], Rank(rank));
    Shared& shared = memories[unpacker.text()];
    const std::int64_t before = shared.ranks.empty() ? comm::kMostTold : shared.sum[Available];
    for (std::int64_t& sum : shared.sum) {
      const std::int64_t figure = unpacker.number();
      if (!comm::is_count(figure))
        throw comm::told_wrong(Rank(rank), "memory", fmt::format("that it needs or has {}", figure));
      // Ranks that came later saw what others had taken already.
      sum = &sum == &shared.sum[Available] ? std::min(before, figure) : sum + figure;
    }
    shared.ranks.push_back(rank);
  }
  std::vector<std::string> exceeded;
  for (const auto& [name, shared] : memories)
    if (shared.sum[Available] > 0 && shared.total() > shared.sum[Available])
      exceeded.push_back(describe(shared));
  if (exceeded.empty()) return;
  throw Error(
      ErrorKind::Resources,
      fmt::format("memory: {}. Less is kept by topology sharded (parts of the optimiser's state; with "
                  "parameters: sharded and exchange.gradients: ring of everything), by mesh.pipeline and "
                  "mesh.tensor (parts of everything), by fewer samples, more batch.micro_batches, or "
                  "pipeline.activations: recomputed (activations)",
                  fmt::join(exceeded, "; ")));
}

}  // namespace taxon::train
