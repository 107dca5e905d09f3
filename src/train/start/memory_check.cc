#include "train/start/memory_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <span>

#include "base/units.h"
#include "program/check.h"

namespace taxon::train {
namespace {

std::int64_t divided_up(std::int64_t all, std::int64_t parts) { return (all + parts - 1) / parts; }

/// As it travels: the figures, and then the memory's name.
struct Figures {
  std::uint64_t available, weights, gradients, optimiser, activations, samples;
  std::uint64_t total() const { return weights + gradients + optimiser + activations; }
};

/// Of ranks that share a memory.
struct Shared {
  std::vector<int> ranks;
  Figures sum{};
};

std::string describe(const Shared& shared) {
  const Figures& sum = shared.sum;
  const std::string who = shared.ranks.size() == 1
                              ? fmt::format("rank {} needs", shared.ranks.front())
                              : fmt::format("ranks {} need", fmt::join(shared.ranks, ", "));
  std::string activations;
  if (sum.activations > 0)
    activations = fmt::format(", activations of {} samples {}", sum.samples,
                              format_bytes(static_cast<double>(sum.activations)));
  return fmt::format(
      "{} at least {} and may have {} (weights {}, gradients {}, optimiser state {}{})", who,
      format_bytes(static_cast<double>(sum.total())), format_bytes(static_cast<double>(sum.available)),
      format_bytes(static_cast<double>(sum.weights)), format_bytes(static_cast<double>(sum.gradients)),
      format_bytes(static_cast<double>(sum.optimiser)), activations);
}

}  // namespace

MemoryNeed memory_need(const plan::Plan& plan, ArenaBytes arenas, const model::ModelSpec& spec,
                       const Divided* divided, plan::MeshPosition position, std::int64_t global_batch,
                       int workers) {
  const auto pipeline = static_cast<std::size_t>(position.pipeline);
  if (divided)  // some layers' outputs are whole on every member
    return {arenas, static_cast<std::size_t>(kept_activations(*divided, plan)[pipeline] / plan.mesh.tensor),
            divided->micro_batch() * program::rank_activations(divided->program)[pipeline]};
  if (position.data >= workers) return {arenas};  // a server
  const std::int64_t samples = divided_up(divided_up(global_batch, workers), plan.batch.micro_batches);
  std::int64_t outputs = 0;
  for (const model::Segment& segment : spec.segments) outputs += segment.outputs;
  return {arenas, static_cast<std::size_t>(samples * outputs) * size_of(plan.precision.compute), samples};
}

task::Task<void> require_memory(Agreement* everybody, const RankMemory* here, const MemoryNeed* need) {
  const Figures mine{here->available,        need->arenas.weights, need->arenas.gradients,
                     need->arenas.optimiser, need->activations,    static_cast<std::uint64_t>(need->samples)};
  std::vector<std::byte> bytes(sizeof mine + here->name.size());
  std::memcpy(bytes.data(), &mine, sizeof mine);
  std::copy_n(std::as_bytes(std::span(here->name)).begin(), here->name.size(), bytes.begin() + sizeof mine);
  const std::vector<std::vector<std::byte>> all = co_await everybody->gather(std::move(bytes));
  std::map<std::string, Shared> memories;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    Figures each;
    if (all[rank].size() < sizeof each)
      throw Error(ErrorKind::Mismatch, fmt::format("what rank {} says of its memory is cut short", rank));
    std::memcpy(&each, all[rank].data(), sizeof each);
    const auto* name = reinterpret_cast<const char*>(all[rank].data());
    Shared& shared = memories[std::string(name + sizeof each, name + all[rank].size())];
    // Ranks that came later saw what others had taken already.
    shared.sum.available =
        shared.ranks.empty() ? each.available : std::min(shared.sum.available, each.available);
    shared.sum.weights += each.weights;
    shared.sum.gradients += each.gradients;
    shared.sum.optimiser += each.optimiser;
    shared.sum.activations += each.activations;
    shared.sum.samples += each.samples;
    shared.ranks.push_back(static_cast<int>(rank));
  }
  std::vector<std::string> exceeded;
  for (const auto& [name, shared] : memories)
    if (shared.sum.available > 0 && shared.sum.total() > shared.sum.available)
      exceeded.push_back(describe(shared));
  if (exceeded.empty()) co_return;
  throw Error(
      ErrorKind::Resources,
      fmt::format("memory: {}. Topology sharded holds parts of the optimiser's state, mesh.pipeline and "
                  "mesh.tensor parts of everything; fewer samples or more batch.micro_batches keep fewer "
                  "activations",
                  fmt::join(exceeded, "; ")));
}

}  // namespace taxon::train
