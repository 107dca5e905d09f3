#include "planner/dry_run.h"

#include <fmt/format.h>

#include "base/units.h"
#include "data/sampler.h"
#include "data/storage.h"
#include "exchange/compression/coder.h"
#include "exchange/compression/factors.h"
#include "exchange/layout/bucket.h"
#include "exchange/layout/shard.h"
#include "exchange/levels/algorithm_selection.h"
#include "exchange/levels/levels.h"
#include "job/inputs.h"
#include "launch/host.h"
#include "net/transport_choice.h"
#include "optim/rule.h"
#include "plan/axes.h"
#include "plan/changes.h"
#include "train/start/divided.h"
#include "train/start/layout.h"

namespace taxon::planner {
namespace {

/// A share of the first batch, for what must be measured by a pass through the model.
data::Samples read_share(const plan::Plan& plan, const data::Dataset& train, int world_size) {
  data::Sampler sampler(plan.seed, train.size(), plan::global_batch(plan, world_size));
  return data::read_samples(train, sampler.at(0, world_size, 0).indices);
}

/// As far as a plan tells: nodes are what it says, or all workers of this machine.
std::vector<exchange::LevelShape> level_shapes(const plan::Plan& plan, int world_size) {
  bool shares_memory =
      net::find_transport_choice(plan.transport.kind).memory == net::TransportChoice::Memory::Shared;
  int node = plan.mesh.node > 0 ? plan.mesh.node : shares_memory ? world_size : 1;
  std::vector<exchange::LevelShape> shapes;
  for (const plan::LevelPlan& level : plan.exchange.levels) {
    auto members = exchange::members_of(level.group, Rank(0), world_size, node);
    shapes.push_back({static_cast<int>(members.size()),
                      shares_memory && level.group != plan::LevelGroup::Across, plan.mesh.servers});
  }
  return shapes;
}

}  // namespace

std::string dry_run(const plan::Plan& plan, int world_size, Printed keys, const exchange::Extensions& own) {
  data::FileStorage storage;
  job::TrainingInputs training = job::open_training_inputs(plan, storage, 0, world_size);
  const data::Samples share = read_share(plan, *training.datasets.train, world_size);
  std::uint64_t before = launch::peak_rss_bytes();
  std::vector<int> order = training.model->gradient_order(share.inputs(), share.labels);
  std::uint64_t pass = launch::peak_rss_bytes() - before;
  const auto ahead = exchange::gathered_ahead(plan.exchange.levels, own);
  if (ahead) {
    train::staged_passes(*training.model).divide(train::by_segments(training.model->spec()));
    order = train::backwards(training.model->spec());
  }
  const model::ModelSpec& spec = training.model->spec();
  const int segments = static_cast<int>(spec.segments.size());

  plan::Plan resolved = plan;
  std::vector<exchange::Tensor> tensors = train::tensors_of(spec, order, ahead.has_value());
  std::vector<exchange::LevelShape> shapes = level_shapes(plan, world_size);
  const exchange::FactorGroup group{shapes.front().size, world_size};
  exchange::choose_factors(tensors, plan, group);
  resolved.resolved.world_size = world_size;
  const optim::RuleRow& rule = optim::find_rule(plan.optimiser.rule, own.rules);
  resolved.resolved.buckets = exchange::cut_buckets(tensors, plan, exchange::slices_for(rule));
  exchange::resolve_exchange(resolved, shapes, own);
  exchange::explain_factors(resolved, tensors, group);
  const plan::Catalogue known = exchange::catalogue(own);
  std::string text = (keys == Printed::All ? plan::write_plan(resolved)
                                           : "# what differs from the defaults (--all: every key)\n" +
                                                 plan::write_changes(plan, &known)) +
                     "\n";

  std::int64_t trained = 0;
  double sent = 0, owned = 0;
  for (const auto& tensor : tensors) trained += tensor.count();
  auto placed = exchange::lay_out(tensors, resolved.resolved.buckets, plan.precision.master);
  if (ahead) exchange::keep_parts(placed, segments, *ahead);
  const double narrower = static_cast<double>(size_of(plan.precision.compute)) /
                          static_cast<double>(size_of(plan.precision.master));
  for (std::size_t b = 0; b < placed.buckets.size(); ++b) {
    const auto& bucket = resolved.resolved.buckets[b];
    const auto pieces = exchange::pieces_of(placed.arena.slots(), placed.buckets[b].range);
    const double spreads =
        ahead ? narrower * exchange::gathers_per_step(placed.buckets[b], segments, *ahead) : 1;
    sent += exchange::bytes_sent(bucket, plan.exchange.levels,
                                 {.shapes = shapes, .pieces = pieces, .own = own, .spreads = spreads});
    owned += static_cast<double>(exchange::bytes_owned(bucket, plan.exchange.levels, shapes, own));
  }
  auto master = static_cast<double>(trained) * static_cast<double>(size_of(plan.precision.master));
  double compute = plan.precision.compute == plan.precision.master
                       ? 0
                       : static_cast<double>(trained) * static_cast<double>(size_of(plan.precision.compute));
  double gradients = master, weights = master;
  if (ahead) {
    weights = owned;
    compute = static_cast<double>(placed.gathered * size_of(plan.precision.compute));
  }
  if (plan.exchange.gradients == plan::GradientMemory::Ring) {
    exchange::Layout layout = exchange::lay_out(tensors, resolved.resolved.buckets, plan.precision.master);
    exchange::lay_out_ring(layout, segments, plan.exchange.in_flight);
    gradients = static_cast<double>(layout.gradients * size_of(plan.precision.master)) + owned;
  }
  for (const plan::BucketPlan& bucket : resolved.resolved.buckets)
    gradients += static_cast<double>(bucket.factors) * group.members;
  gradients *= 1 + plan.exchange.delay;
  double arenas = weights + gradients + owned * rule.state_arenas + compute;
  const plan::Axes axes = plan::axes_of(resolved, known);
  text += fmt::format("# on the axes: {}; {}; {}; {}; {}\n", axes.parallelism, axes.optimisation,
                      axes.scheduling, axes.communication, axes.compression);
  text += fmt::format("# {} parameters, {} of them trained; {} workers, {} samples per step\n",
                      spec.parameter_count(), trained, world_size, plan::global_batch(plan, world_size));
  text += fmt::format(
      "# memory per worker: {} (weights {}, gradients {}, optimiser state {}{}), and about {} for a forward "
      "and backward pass of {} samples\n",
      format_bytes(arenas + static_cast<double>(pass)), format_bytes(weights), format_bytes(gradients),
      format_bytes(owned * rule.state_arenas),
      compute > 0 ? (ahead ? ", gathered weights " : ", compute copy ") + format_bytes(compute) : "",
      format_bytes(static_cast<double>(pass)),
      static_cast<std::int64_t>(share.labels.size()) / training.datasets.train->shape().targets());
  text += fmt::format("# sent per step and worker: {} in {} buckets\n", format_bytes(sent),
                      resolved.resolved.buckets.size());
  return text;
}

}  // namespace taxon::planner
