#include "train/state/saving.h"

#include <iterator>

#include "checkpoint/safetensors.h"
#include "train/bytes.h"
#include "train/start/parts.h"
#include "train/state/redistribution.h"

namespace taxon::train {
namespace {

/// A run that ends when it diverges does not save what it diverged to.
void require_finite(const checkpoint::Checkpoint& checkpoint, const plan::Plan& plan) {
  if (plan.on_divergence == plan::OnDivergence::Ignore) return;
  if (const auto name = checkpoint::find_not_finite(checkpoint))
    throw exchange::diverged(checkpoint.steps, *name + " afterwards", {{}, "save", *name});
}

}  // namespace

task::Task<void> Saver::save(std::int64_t steps, std::int64_t samples, ToCome to_come) {
  if (setup_.options->out.empty()) co_return;
  State& state = *setup_.state;
  co_await setup_.replicas->arrive();
  Packer packer;
  auto own = on_compute(&world_.runtime, "read state", [&] {
    std::vector<checkpoint::LogicalTensor> tensors;
    tensors.push_back(pack_rank_state(world_.model));
    for (auto& tensor : pack_kept(ranks_.levels, state)) tensors.push_back(std::move(tensor));
    if (setup_.replicas->apart())
      for (auto& tensor : setup_.replicas->tensors()) tensors.push_back(std::move(tensor));
    packer.tensors(tensors);
  });
  co_await own;
  auto states = co_await ranks_.agreement.collect(packer.take());
  std::vector<checkpoint::LogicalTensor> optimiser;
  if (!setup_.replicas->apart()) {
    optimiser = co_await collect_optimiser(to_come);
  }
  co_await setup_.replicas->load_consensus();
  std::vector<checkpoint::LogicalTensor> weights = co_await collect_weights();
  if (ranks_.data.rank() == 0) {
    weights = co_await whole(std::move(weights));
    optimiser = co_await whole(std::move(optimiser));
  }
  std::string path;
  if (ranks_.group.rank() == 0) {
    auto write = on_data(&world_.runtime, "write checkpoint", [&] {
      checkpoint::Checkpoint out;
      plan::Plan plan = *setup_.plan;
      if (ranks_.replica) plan.resolved.buckets.clear();  // each part has its own
      out.plan_yaml = plan::write_plan(plan);
      out.taxon_version = setup_.options->version;
      out.seed = setup_.plan->seed;
      out.world_size = ranks_.group.size();
      out.steps = steps;
      out.samples = samples;
      out.weights = std::move(weights);
      out.optimiser = std::move(optimiser);
      for (std::size_t m = 0; m < states.size(); ++m)
        out.per_rank.push_back(Unpacker(states[m], ranks_.group.global(static_cast<int>(m))).tensors());
      for (const model::ParameterSpec& parameter : setup_.whole->parameters)
        if (!parameter.trainable) out.frozen.push_back(parameter.name);
      require_finite(out, *setup_.plan);
      path = checkpoint::save(world_.storage, setup_.options->out, out, setup_.plan->checkpoint.keep);
    });
    co_await write;
    if (!path.empty()) world_.observer.saved(path);
  }
  co_await setup_.replicas->restore_local();
}

/// Of all parts of a divided model, at rank 0. Called by the first rank of each.
task::Task<std::vector<checkpoint::LogicalTensor>> Saver::whole(std::vector<checkpoint::LogicalTensor> part) {
  if (!ranks_.replica) co_return part;
  co_return co_await join_parts(ranks_, std::move(part), &world_.model.spec(), setup_.whole);
}

/// The first rank: the rule's whole state, and the sums of a step whose update is delayed.
task::Task<std::vector<checkpoint::LogicalTensor>> Saver::collect_optimiser(ToCome to_come) {
  std::vector<checkpoint::LogicalTensor> tensors;
  for (const auto& [name, arena] : setup_.state->rule().state()) {
    co_await collect(name, arena, ShardTransfer::packed, &tensors);
  }
  if (to_come.exchange) {
    co_await to_come.exchange->summed();
    co_await collect(Delayed::kSums, to_come.sums, ShardTransfer::in_place, &tensors);
    tensors.push_back(Delayed{to_come.exchange->step_clock()}.pack());
  }
  co_return tensors;
}

task::Task<void> Saver::collect(std::string name, const tensor::Arena* part, ShardTransfer::Where where,
                                std::vector<checkpoint::LogicalTensor>* tensors) {
  State& state = *setup_.state;
  const bool in_shards = ranks_.levels.spreads();
  tensor::Arena own;
  if (in_shards) {
    own = co_await gather(part, where);
  }
  if (ranks_.data.rank() != 0) co_return;
  const tensor::Arena* whole = in_shards ? &own : part;
  auto copy = on_data(&world_.runtime, "copy state", [&] {
    auto named = state.named(name, *whole);
    tensors->insert(tensors->end(), std::make_move_iterator(named.begin()),
                    std::make_move_iterator(named.end()));
  });
  co_await copy;
}

/// At the first rank what all owners have, in the weights' layout; elsewhere nothing.
task::Task<tensor::Arena> Saver::gather(const tensor::Arena* part, ShardTransfer::Where where) {
  const exchange::Layout& layout = setup_.state->layout();
  ShardTransfer shards(ranks_.data, ranks_.levels, layout);
  tensor::Arena whole;
  if (ranks_.data.rank() == 0) whole = tensor::Arena(part->type(), layout.arena.size(), part->bytes());
  co_await shards.gather(part, where, &whole);
  co_return whole;
}

/// Of this part of the model, at the first rank.
task::Task<std::vector<checkpoint::LogicalTensor>> Saver::collect_weights() {
  const State& state = *setup_.state;
  tensor::Arena own;
  if (state.in_parts()) {
    own = co_await gather(&state.master(), ShardTransfer::packed);
  }
  std::vector<checkpoint::LogicalTensor> weights;
  if (ranks_.data.rank() != 0) co_return weights;
  std::vector<double> parameters;
  auto read = on_compute(&world_.runtime, "read state", [&] { parameters = world_.model.parameters(); });
  co_await read;
  auto copy = on_data(&world_.runtime, "copy weights",
                      [&] { weights = state.weights(parameters, state.in_parts() ? own : state.master()); });
  co_await copy;
  co_return weights;
}

task::Task<void> Saver::export_model() {
  std::vector<checkpoint::LogicalTensor> tensors = co_await collect_weights();
  if (ranks_.data.rank() != 0) co_return;
  std::vector<double> buffers;
  std::vector<checkpoint::LogicalTensor> state;
  auto read = on_compute(&world_.runtime, "read model", [&] { buffers = world_.model.buffers(); });
  co_await read;
  auto copy =
      on_data(&world_.runtime, "copy model", [&] { state = named_buffers(world_.model.spec(), buffers); });
  co_await copy;
  tensors = co_await whole(std::move(tensors));
  state = co_await whole(std::move(state));
  if (ranks_.group.rank() != 0) co_return;
  std::string path = setup_.options->out + "/model.safetensors";
  auto write = on_data(&world_.runtime, "write model", [&] {
    for (checkpoint::LogicalTensor& buffer : state) tensors.push_back(std::move(buffer));
    checkpoint::write_safetensors(world_.storage, path, tensors,
                                  {{"format", "pt"}, {"taxon", setup_.options->version}});
  });
  co_await write;
  world_.observer.saved(path);
}

}  // namespace taxon::train
