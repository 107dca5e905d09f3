#include "planner/dry_run.h"

#include <fmt/format.h>

#include <regex>

#include "base/units.h"
#include "data/sampler.h"
#include "data/storage.h"
#include "exchange/compression/coder.h"
#include "exchange/compression/factors.h"
#include "exchange/layout/bucket.h"
#include "exchange/layout/shard.h"
#include "exchange/levels/algorithm_selection.h"
#include "exchange/levels/levels.h"
#include "launch/host.h"
#include "net/loopback/loopback.h"
#include "net/transport_choice.h"
#include "optim/rule.h"
#include "plan/axes.h"
#include "plan/changes.h"
#include "plan/mesh.h"
#include "task/poll_loop.h"
#include "tensor/cpu_device.h"
#include "train/start/forecast.h"
#include "train/start/layout.h"
#include "train/state/arena_bytes.h"
#include "train/state/state.h"

namespace taxon::planner {
namespace {

/// A share of the first batch, for what must be measured by a pass through the model.
data::Samples read_share(const plan::Plan& plan, const data::Dataset& train, int world_size) {
  data::Sampler sampler(plan.seed, train.size(), plan::global_batch(plan, world_size));
  return data::read_samples(train, sampler.at(0, plan::workers(plan, world_size), 0).indices);
}

/// As far as a plan tells: nodes are what it says, or all workers of this machine.
train::Surroundings surroundings_of(const plan::Plan& plan, int world_size) {
  const bool share_memory =
      net::find_transport_choice(plan.transport.kind).memory == net::TransportChoice::Memory::Shared;
  return {plan.mesh.node > 0 ? plan.mesh.node : share_memory ? world_size : 1, share_memory};
}

std::vector<exchange::LevelShape> level_shapes(const plan::Plan& plan, int world_size) {
  const auto [node, share_memory] = surroundings_of(plan, world_size);
  std::vector<exchange::LevelShape> shapes;
  for (const plan::LevelPlan& level : plan.exchange.levels) {
    auto members = exchange::members_of(level.group, Rank(0), world_size, node);
    shapes.push_back({static_cast<int>(members.size()),
                      share_memory && level.group != plan::LevelGroup::Across, plan.mesh.servers});
  }
  return shapes;
}

/// What a run costs its ranks.
struct RunCosts {
  plan::ResolvedPlan resolved;  // of the first rank's part
  std::string lines;
};

/// Where every worker has the whole model.
RunCosts costs_of_workers(const plan::Plan& plan, job::TrainingInputs& training, int world_size,
                          const exchange::Extensions& own) {
  const data::Samples share = read_share(plan, *training.datasets.train, world_size);
  std::uint64_t before = launch::peak_rss_bytes();
  std::vector<int> order = training.model->gradient_order(share.inputs(), share.labels);
  std::uint64_t pass = launch::peak_rss_bytes() - before;
  const model::ModelSpec& spec = training.model->spec();

  plan::Plan resolved = plan;
  std::vector<exchange::Tensor> tensors = train::tensors_of(spec, order, false);
  std::vector<exchange::LevelShape> shapes = level_shapes(plan, world_size);
  const exchange::FactorGroup group{shapes.front().size, world_size};
  exchange::choose_factors(tensors, plan, group);
  resolved.resolved.world_size = world_size;
  const optim::RuleRow& rule = optim::find_rule(plan.optimiser.rule, own.rules);
  resolved.resolved.buckets = exchange::cut_buckets(tensors, plan, exchange::slices_for(rule));
  exchange::resolve_exchange(resolved, shapes, own);
  exchange::explain_factors(resolved, tensors, group);

  double sent = 0;
  exchange::Layout layout = exchange::lay_out(tensors, resolved.resolved.buckets, plan.precision.master);
  std::size_t owned = 0;
  for (std::size_t b = 0; b < layout.buckets.size(); ++b) {
    const auto& bucket = resolved.resolved.buckets[b];
    const auto pieces = exchange::pieces_of(layout.arena.slots(), layout.buckets[b].range);
    sent +=
        exchange::bytes_sent(bucket, plan.exchange.levels, {.shapes = shapes, .pieces = pieces, .own = own});
    owned += static_cast<std::size_t>(exchange::bytes_owned(bucket, plan.exchange.levels, shapes, own));
  }
  layout.shard = owned / size_of(plan.precision.master);
  exchange::lay_out_factors(layout, resolved.resolved.buckets, group.members, 0);
  if (plan.exchange.gradients == plan::GradientMemory::Ring)
    exchange::lay_out_ring(layout, static_cast<int>(spec.segments.size()), plan.exchange.in_flight);
  const train::ArenaBytes arenas = train::arena_bytes(plan, layout, rule);
  const auto bytes = [](std::uint64_t count) { return format_bytes(static_cast<double>(count)); };
  std::string lines = fmt::format(
      "# memory per worker: {} ({}), and about {} for a forward and backward pass of {} samples\n",
      bytes(arenas.total() + pass), train::describe({.arenas = arenas}), bytes(pass),
      static_cast<std::int64_t>(share.labels.size()) / training.datasets.train->shape().targets());
  lines += fmt::format("# sent per step and worker: {} in {} buckets\n", format_bytes(sent),
                       resolved.resolved.buckets.size());
  return {std::move(resolved.resolved), std::move(lines)};
}

/// Where ranks hold parts of it: a line for ranks alike. Members of the tensor axis and replicas of a stage
/// have as much as its first rank, which has what can't be shared equally.
RunCosts costs_of_parts(const plan::Plan& plan, job::TrainingInputs& training, int world_size,
                        const exchange::Extensions& own) {
  task::PollLoop loop;
  net::LoopbackWorld world(loop, world_size);
  tensor::CpuDevice device(loop);
  comm::FlightRecorder recorder;
  const train::TrainOptions options{.plan = plan, .own = own};
  RunCosts costs;
  struct Alike {
    int first, last;
    std::string words;
  };
  std::vector<Alike> parts;
  for (int stage = 0; stage < plan.mesh.pipeline; ++stage) {
    const Rank first = plan::rank_at(plan.mesh, world_size, {.pipeline = stage});
    comm::Runtime runtime{world.transport(first), device, recorder};
    if (stage > 0)
      training.model =
          model::make_model(job::model_context(plan, training.datasets.train->shape(), 0, world_size));
    train::Forecast part =
        train::forecast(runtime, *training.model, options, surroundings_of(plan, world_size));
    if (stage == 0) {
      costs.resolved = part.resolved;
      for (const std::string& notice : train::describe(part.divided, plan))
        costs.lines += "# " + std::regex_replace(notice, std::regex("\n"), "\n# ") + "\n";
    }
    std::string words =
        fmt::format("memory at least {} ({}), sent per step {} in {} buckets",
                    format_bytes(static_cast<double>(part.memory.total())), train::describe(part.memory),
                    format_bytes(part.sent), part.resolved.buckets.size());
    const int last = first.value() + world_size / plan.mesh.pipeline - 1;
    if (!parts.empty() && parts.back().words == words)
      parts.back().last = last;
    else
      parts.push_back({first.value(), last, std::move(words)});
  }
  for (const auto& [first, last, words] : parts)
    costs.lines += first == last ? fmt::format("# rank {}: {}\n", first, words)
                                 : fmt::format("# ranks {} to {}, each: {}\n", first, last, words);
  return costs;
}

}  // namespace

void require_divisible(const plan::Plan& plan, const job::TrainingInputs& training, int world_size,
                       const exchange::Extensions& own) {
  if (!train::is_divided(plan, own)) return;
  task::PollLoop loop;
  net::LoopbackWorld world(loop, world_size);
  tensor::CpuDevice device(loop);
  comm::FlightRecorder recorder;
  comm::Runtime runtime{world.transport(Rank(0)), device, recorder};
  train::forecast(runtime, *training.model, {.plan = plan, .own = own}, surroundings_of(plan, world_size));
}

std::string dry_run(const plan::Plan& plan, int world_size, Printed keys, const exchange::Extensions& own) {
  data::FileStorage storage;
  job::TrainingInputs training = job::open_training_inputs(plan, storage, 0, world_size);
  const std::int64_t parameters = training.model->spec().parameter_count();
  std::int64_t trained = 0;
  for (const exchange::Tensor& tensor : train::trainable(training.model->spec())) trained += tensor.count();
  RunCosts costs =
      (train::is_divided(plan, own) ? costs_of_parts : costs_of_workers)(plan, training, world_size, own);
  plan::Plan resolved = plan;
  resolved.resolved = std::move(costs.resolved);
  const plan::Catalogue known = exchange::catalogue(own);
  std::string text = (keys == Printed::All ? plan::write_plan(resolved)
                                           : "# what differs from the defaults (--all: every key)\n" +
                                                 plan::write_changes(plan, &known)) +
                     "\n";
  const plan::Axes axes = plan::axes_of(resolved, known);
  text += fmt::format("# on the axes: {}; {}; {}; {}; {}\n", axes.parallelism, axes.optimisation,
                      axes.scheduling, axes.communication, axes.compression);
  const int together = plan::ranks_of_replica(plan.mesh);
  text += fmt::format("# {} parameters, {} of them trained; {}, {} samples per step\n", parameters, trained,
                      together == 1
                          ? fmt::format("{} workers", world_size)
                          : fmt::format("{} replicas of {} ranks each", world_size / together, together),
                      plan::global_batch(plan, world_size));
  return text + costs.lines;
}

}  // namespace taxon::planner
