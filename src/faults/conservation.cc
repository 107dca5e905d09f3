#include "faults/conservation.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "checkpoint/checkpoint.h"
#include "exchange/levels/topology.h"
#include "optim/outer.h"

namespace taxon::faults {
namespace {

using Conserves = optim::OuterRow::Conserves;

Conserves conserves(const plan::LevelPlan& level) {
  for (const optim::OuterRow& row : optim::outer_table())
    if (row.name == level.rule) return row.conserves;
  return Conserves::Nothing;
}

/// Where members' weights differ, gossip keeps the weighted mean alone.
bool is_weighted(const plan::LevelPlan& level) {
  return exchange::find_topology(level.topology).has_graph && !exchange::find_graph(level.graph).balanced;
}

bool promised(const plan::Plan& plan) {
  const auto& levels = plan.exchange.levels;
  const plan::LevelPlan& level = levels.front();
  return levels.size() == 1 && conserves(level) != Conserves::Nothing && level.codec.name == "none" &&
         !is_weighted(level) && level.delay == 0 && level.mixing == 0 &&
         optim::find_rule(plan.optimiser.rule).is_linear && plan.optimiser.weight_decay == 0 &&
         plan.optimiser.clip_norm == 0 && plan.precision.compute == DType::Float32 &&
         plan.checkpoint.every_steps > 0;
}

struct Sum {
  double value = 0, magnitude = 0;
  void add(double more) { value += more, magnitude += std::abs(more); }
};

void add_tensor(Sum& sum, const checkpoint::LogicalTensor& tensor) {
  for (std::size_t at = 0; at + sizeof(float) <= tensor.bytes.size(); at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, tensor.bytes.data() + at, sizeof value);
    sum.add(static_cast<double>(value));
  }
}

/// The centre, if there is one: at servers by name, each with its parts; where replicas all-reduce, everybody
/// has all of it, and where they own parts these are packed.
bool is_centre(const checkpoint::LogicalTensor& tensor, plan::SumAt sum, std::size_t rank) {
  if (sum == plan::SumAt::Servers) return tensor.name.starts_with("server centre/");
  const bool named = tensor.name.starts_with("centre/") || tensor.name.starts_with("centre packed ");
  return named && (sum == plan::SumAt::Parts || rank == 0);
}

}  // namespace

std::optional<std::string> check_sums(const plan::Plan& plan, const SimulatedRun& seen,
                                      const data::Storage& storage) {
  if (!promised(plan)) return {};
  const auto path = checkpoint::find_latest(storage, kRunFolder);
  if (!path) return {};
  const checkpoint::Checkpoint last = checkpoint::load(storage, *path);
  const plan::LevelPlan& level = plan.exchange.levels.front();
  const auto workers = static_cast<std::size_t>(plan::workers(plan, static_cast<int>(seen.ranks.size())));
  Sum sum;
  for (std::size_t rank = 0; rank < last.per_rank.size(); ++rank)
    for (const checkpoint::LogicalTensor& tensor : last.per_rank[rank])
      if ((rank < workers && tensor.name.starts_with("replica/")) ||
          is_centre(tensor, exchange::sum_at(level), rank))
        add_tensor(sum, tensor);
  for (std::size_t rank = 0; rank < workers; ++rank) {
    const Observations& one = seen.ranks[rank];
    if (one.first_step > 0 || one.gradients.empty() || one.rates.size() != one.gradients.size()) return {};
    sum.add(-one.before);
    for (std::size_t step = 0; step < one.rates.size(); ++step)
      sum.add(one.rates[step] * one.gradients[step]);
  }
  const bool centre = conserves(level) == Conserves::ReplicasAndCentre;
  if (centre) sum.add(-seen.ranks.front().before);
  if (std::abs(sum.value) < 1e-5 * sum.magnitude + 1e-6) return {};
  return fmt::format("meetings moved the sum of all replicas{} by {:.3g}", centre ? " and the centre" : "",
                     sum.value);
}

}  // namespace taxon::faults
