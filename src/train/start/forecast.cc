#include "train/start/forecast.h"

#include "exchange/compression/coder.h"
#include "exchange/layout/shard.h"
#include "exchange/levels/algorithm_selection.h"
#include "train/crossing.h"
#include "train/start/layout.h"
#include "train/start/process_groups.h"
#include "train/start/summands.h"
#include "train/state/arena_bytes.h"
#include "train/state/state.h"

namespace taxon::train {
namespace {

/// By what Exchange does with a bucket of which several ranks have summands.
double summands_sent(const exchange::Bucket& bucket, int members, bool in_strips, DType type) {
  const std::size_t bytes = (in_strips ? bucket.gradients : bucket.owned).size * size_of(type);
  double sent = 0;
  const auto add = [&](net::Operation collective) {
    sent += comm::find_row(collective, "ring").sent({members, bytes, false});
  };
  if (!in_strips) add(net::Operation::AllReduce);
  if (in_strips) add(net::Operation::ReduceScatter);
  if (in_strips) add(net::Operation::AllGather);
  return sent;
}

/// For one update. `plan`: resolved.
double gradients_sent(const plan::Plan& plan, const exchange::Layout& layout, const SummandGroups& summands,
                      const exchange::Levels& levels, const exchange::Setting& setting, int segments) {
  const auto ahead = exchange::gathered_ahead(plan.exchange.levels, setting.own);
  const double narrower = static_cast<double>(size_of(plan.precision.compute)) /
                          static_cast<double>(size_of(plan.precision.master));
  double sent = 0;
  for (std::size_t b = 0; b < layout.buckets.size(); ++b) {
    const exchange::Bucket& bucket = layout.buckets[b];
    plan::BucketPlan outward = plan.resolved.buckets[b];
    if (bucket.summands) {
      const int members = summands.groups()[bucket.summands->group]->size();
      sent += summands_sent(bucket, members, levels.are_whole(), plan.precision.master);
      if (levels.are_whole()) outward.bytes /= members;
    }
    const auto pieces = exchange::pieces_of(layout.arena.slots(), bucket.range);
    exchange::Setting here = setting;
    here.pieces = pieces;
    if (ahead) here.spreads = narrower * exchange::gathers_per_step(bucket, segments, *ahead);
    sent += exchange::bytes_sent(outward, plan.exchange.levels, here);
  }
  return sent;
}

/// Between stages, and among the members of the tensor axis.
double passes_sent(const Divided& divided, model::Model& model, plan::MeshPosition position, DType type) {
  const std::vector<model::Piece>& pieces = staged_passes(model).pieces();
  const int members = model.spec().members, member = model.spec().member;
  double sent = 0;
  for (const program::Action& action : divided.program.ranks[static_cast<std::size_t>(position.pipeline)]) {
    const auto micros = static_cast<std::size_t>(divided.program.micros);
    const std::size_t samples =
        part({0, static_cast<std::size_t>(divided.samples)}, micros, static_cast<std::size_t>(action.micro))
            .size;
    const bool is_send = action.kind == program::ActionKind::SendActivation ||
                         action.kind == program::ActionKind::SendGradient;
    const bool leaves =
        is_send && divided.program.rank_at(program::counterpart(action).stage) != position.pipeline;
    for (int i = 0; i < static_cast<int>(pieces.size()); ++i) {
      const model::Piece& piece = pieces[static_cast<std::size_t>(i)];
      if (piece.stage != action.stage) continue;
      const bool is_first = i == 0 || pieces[static_cast<std::size_t>(i) - 1].stage != piece.stage;
      const bool is_last = i + 1 == static_cast<int>(pieces.size()) ||
                           pieces[static_cast<std::size_t>(i) + 1].stage != piece.stage;
      const std::size_t each = piece.own({0, samples}, members, member).size * size_of(type);
      if (action.kind == program::ActionKind::Forward)
        sent += bytes_sent(onward(pieces, i, samples), members, type);
      if (action.kind == program::ActionKind::Backward || action.kind == program::ActionKind::BackwardInput)
        sent += bytes_sent(back(pieces, i, samples), members, type);
      if (leaves && action.kind == program::ActionKind::SendActivation && is_last)
        sent += static_cast<double>(each) * static_cast<double>(piece.outputs);
      if (leaves && action.kind == program::ActionKind::SendGradient && is_first)
        sent += static_cast<double>(each) * static_cast<double>(piece.inputs);
    }
  }
  return sent;
}

}  // namespace

Forecast forecast(comm::Runtime& runtime, model::Model& model, const TrainOptions& options,
                  Surroundings surroundings) {
  const exchange::Extensions& own = options.own;
  const int world = runtime.world_size();
  ProcessGroups groups(runtime, options, {});
  groups.foresee(surroundings.node);
  const RankGroups ranks = groups.ranks();
  Forecast rank{.divided = divide(model, options, ranks)};
  const model::ModelSpec& spec = model.spec();

  std::vector<exchange::LevelShape> shapes;
  for (std::size_t l = 0; l < ranks.levels.size(); ++l) {
    const bool near = options.plan.exchange.levels[l].group != plan::LevelGroup::Across;
    shapes.push_back({ranks.levels.group(l).size(), near && surroundings.share_memory});
  }
  if (ranks.outer) shapes.push_back({ranks.outer->group(0).size(), surroundings.share_memory});
  plan::Plan plan = options.plan;
  const exchange::FactorGroup factors{shapes.front().size, world};
  plan.resolved.world_size = world;
  plan.resolved.buckets = cut_buckets(spec, backwards(spec), plan, factors, own);
  exchange::size_factors(plan, trainable(spec), factors);
  exchange::resolve_exchange(plan, shapes, own);
  exchange::explain_factors(plan, trainable(spec), factors);

  exchange::Layout layout = lay_out(plan, spec, ranks.levels, own);
  const SummandGroups summands(runtime, ranks, spec, &rank.divided, plan.mesh);
  summands.assign(layout, plan.resolved.buckets);
  const optim::RuleRow& rule = optim::find_rule(plan.optimiser.rule, own.rules);
  const int versions = rank.divided.versions(ranks.position.pipeline);
  rank.memory = memory_need(plan, arena_bytes(plan, layout, rule, versions), spec, &rank.divided,
                            ranks.position, plan::global_batch(plan, world), plan::workers(plan, world));
  rank.sent = rank.divided.updates * gradients_sent(plan, layout, summands, ranks.levels,
                                                    {.shapes = shapes, .own = own},
                                                    static_cast<int>(spec.segments.size())) +
              passes_sent(rank.divided, model, ranks.position, plan.precision.compute);
  rank.resolved = std::move(plan.resolved);
  return rank;
}

}  // namespace taxon::train
