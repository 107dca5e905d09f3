#include "train/start/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "comm/told.h"
#include "data/sampler.h"
#include "exchange/compression/factors.h"
#include "exchange/levels/algorithm_selection.h"
#include "train/bytes.h"
#include "train/replay/replay_log.h"
#include "train/start/codec_choice.h"
#include "train/start/exchange_changes.h"
#include "train/start/layout.h"
#include "train/start/parts.h"
#include "train/start/restored.h"
#include "train/start/summands.h"
#include "train/state/redistribution.h"
#include "train/state/replicas.h"
#include "train/state/shard_transfer.h"
#include "train/units.h"

namespace taxon::train {
namespace {

constexpr const char* kModelState = "state";

const checkpoint::LogicalTensor* find_tensor(const std::vector<checkpoint::LogicalTensor>& tensors,
                                             const std::string& name) {
  for (const auto& tensor : tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

/// The buckets of a run that starts fresh.
task::Task<std::vector<plan::BucketPlan>> decide_buckets(TrainContext world, const TrainOptions* options,
                                                         int world_size, exchange::FactorGroup factors) {
  const plan::Plan* plan = &options->plan;
  std::vector<int> order;
  const bool divided = is_divided(*plan, options->own);
  tensor::Kernel kernel{
      "gradient order", {}, [&order, &world, plan, divided, world_size](tensor::Milestones&) {
        if (divided) {
          order = backwards(world.model.spec());
          return;
        }
        const data::Dataset& train = *world.datasets.train;
        std::int64_t batch = plan::global_batch(*plan, world_size);
        data::Sampler sampler(plan->seed, train.size(), batch);
        auto first = sampler.at(0, plan::workers(*plan, world_size), 0).indices;
        const data::Samples samples = data::read_samples(train, first);
        order = world.model.gradient_order(samples.inputs(), samples.labels);
      }};
  // The order decides what happens from here on, and no weight or gradient of this run is touched.
  kernel.runs = tensor::Kernel::Body::Always;
  co_await tensor::run(world.runtime.device, world.runtime.pending(), tensor::Stream::Compute,
                       std::move(kernel));
  co_return cut_buckets(world.model.spec(), order, *plan, factors, options->own);
}

/// Rank 0's values, at every rank.
task::Task<void> spread(comm::Communicator* group, const tensor::Arena* arena) {
  if (group->size() == 1 || arena->size() == 0) co_return;
  comm::Call call{arena->bytes(), arena->type(), kWeightsUnit};
  auto tree = comm::find_row(net::Operation::Broadcast, "tree").run(*group, call);
  co_await tree;
}

/// The first rank's plan, with what it decided. What decides a run every rank has read for itself; what else
/// a plan says (of reports, say) may differ, and rank 0's counts for all.
plan::Plan told_by(Rank first, const std::string& text, const plan::Plan& own) {
  plan::Plan told;
  try {
    told = plan::parse_plan(text, "rank 0's plan");
  } catch (const Error& error) {
    throw comm::told_wrong(first, "start", error.what());
  }
  if (decisive_plan(told) == decisive_plan(own)) return told;
  throw Error(
      ErrorKind::Mismatch,
      "rank 0 runs another plan than this rank. Every rank must be given the same recipe and settings.",
      ErrorContext{first, "start", {}});
}

/// Collective over the first replica: rank 0's plan.
task::Task<plan::Plan> share_plan(ReplicaGroup* replica, const TrainOptions* options) {
  Packer packer;
  packer.text(plan::write_plan(options->plan));
  const std::vector<std::byte> told = co_await replica->agreement.broadcast(packer.take());
  if (replica->group.rank() == 0) co_return options->plan;
  const Rank first = replica->group.global(0);
  co_return told_by(first, Unpacker(told, first).text(), options->plan);
}

/// Whether a checkpoint was written by as many ranks that were laid out alike: what one of them owned as a
/// server is then this rank's.
bool has_mesh(const Restored& restored, const TrainOptions& options, const RankGroups& ranks) {
  const plan::MeshPlan &before = restored.plan.mesh, &mesh = options.plan.mesh;
  return restored.checkpoint.world_size == ranks.group.size() && before.pipeline == mesh.pipeline &&
         before.tensor == mesh.tensor && before.servers == mesh.servers &&
         is_divided(restored.plan, options.own) == is_divided(options.plan, options.own);
}

/// Steps before the optimiser's state was zero: `before`, unless the run begins it anew. Root.
std::int64_t optimiser_begun(const RunStart& run_start, std::int64_t before) {
  const auto& levels = run_start.plan.exchange.levels;
  const bool of_all = !exchange::served_level(levels) && !run_start.restored->optimiser.empty();
  const bool own = run_start.were_apart && run_start.same_world;
  const bool stays = exchange::replicas_are_equal(levels) ? !run_start.were_apart : of_all || own;
  return stays ? before : run_start.restored->steps;
}

/// What this rank checks the resolved plan against.
struct Known {
  TrainContext world;
  RankGroups ranks;
  const exchange::Extensions& own;
};

void check_resolved(Rank first, const plan::Plan& plan, std::span<const exchange::LevelShape> shapes,
                    const Known& known) {
  const plan::ResolvedPlan& resolved = plan.resolved;
  const comm::Communicator& group = known.ranks.group;
  if (resolved.world_size != group.size() || resolved.node != known.ranks.node)
    throw comm::told_wrong(
        first, "start",
        fmt::format("a plan for {} ranks in nodes of {}, where there are {} in nodes of {}",
                    resolved.world_size, resolved.node, group.size(), known.ranks.node));
  plan::Plan own = plan;
  exchange::size_factors(own, trainable(known.world.model.spec()), {shapes.front().size, group.size()});
  if (own.resolved.buckets != resolved.buckets)
    throw comm::told_wrong(first, "start", "sufficient factors of other sizes than the model's");
  for (const plan::BucketPlan& bucket : resolved.buckets) {
    const auto rows = exchange::rows_of(bucket, plan.exchange.levels, known.own);
    for (std::size_t l = 0; l < rows.size(); ++l)
      for (const comm::CollectiveRow* row : {rows[l].reduce, rows[l].spread})
        if (row &&
            !row->applies({shapes[l].size, static_cast<std::size_t>(bucket.bytes), shapes[l].shares_memory}))
          throw comm::told_wrong(first, "start",
                                 fmt::format("{} travels by {}, which does not apply to level {}",
                                             plan::describe(bucket), row->name, l));
  }
}

}  // namespace

bool is_divided(const plan::Plan& plan, const exchange::Extensions& own) {
  return plan::ranks_of_replica(plan.mesh) > 1 ||
         exchange::gathered_ahead(plan.exchange.levels, own).has_value();
}

task::Task<void> on_compute(comm::Runtime* runtime, std::string name, UniqueFunction<void()> body,
                            tensor::Cost cost) {
  tensor::Kernel kernel{std::move(name), cost, [&body](tensor::Milestones&) { body(); }};
  co_await tensor::run(runtime->device, runtime->pending(), tensor::Stream::Compute, std::move(kernel));
}

task::Task<void> on_data(comm::Runtime* runtime, std::string name, UniqueFunction<void()> body) {
  tensor::Kernel kernel{std::move(name), {}, [&body](tensor::Milestones&) { body(); }};
  co_await tensor::run(runtime->device, runtime->pending(), tensor::Stream::Data, std::move(kernel));
}

std::size_t buffer_count(const model::ModelSpec& spec) {
  std::size_t count = 0;
  for (const model::BufferSpec& buffer : spec.buffers) count += buffer.count();
  return count;
}

namespace {

struct RankState {
  std::vector<double> buffers;
  std::vector<std::byte> random;  // empty: of other ranks
};

checkpoint::LogicalTensor pack(const RankState& state) {
  Packer packer;
  packer.numbers(state.buffers);
  packer.bytes(state.random);
  auto bytes = packer.take();
  auto size = static_cast<std::int64_t>(bytes.size());
  return {kModelState, DType::UInt8, {size}, std::move(bytes)};
}

RankState unpack(const checkpoint::LogicalTensor& tensor) {
  Unpacker unpacker(tensor.bytes);
  RankState state;
  state.buffers = unpacker.numbers();
  state.random = unpacker.bytes();
  return state;
}

}  // namespace

checkpoint::LogicalTensor pack_rank_state(const model::Model& model) {
  return pack({model.buffers(), model.random_state()});
}

void restore_rank_state(model::Model& model, const std::vector<checkpoint::LogicalTensor>& tensors) {
  const auto* state = find_tensor(tensors, kModelState);
  if (!state) return;
  const RankState told = unpack(*state);
  model.set_buffers(told.buffers);
  if (told.random.empty()) return;
  try {
    model.set_random_state(ConstView(told.random.data(), told.random.size()));
  } catch (const std::exception&) {
    throw Error(ErrorKind::Checkpoint,
                "the checkpoint's random state of a rank is damaged: the framework refuses it");
  }
}

namespace {

/// Of running statistics what was tested and exported: the mean over those that worked. None where nobody had
/// any, or had others.
std::optional<checkpoint::LogicalTensor> mean_buffers(const Restored& restored, std::size_t size) {
  std::vector<double> sums(size, 0.0);
  const auto& ranks = restored.checkpoint.per_rank;
  const auto workers = std::min(
      ranks.size(), static_cast<std::size_t>(plan::workers(restored.plan, restored.checkpoint.world_size)));
  for (std::size_t r = 0; r < workers; ++r) {
    const auto* state = find_tensor(ranks[r], kModelState);
    const std::vector<double> buffers = state ? unpack(*state).buffers : std::vector<double>();
    if (buffers.size() != size) return std::nullopt;
    for (std::size_t i = 0; i < size; ++i) sums[i] += buffers[i];
  }
  if (size == 0 || workers == 0) return std::nullopt;
  for (double& sum : sums) sum /= static_cast<double>(workers);
  return pack({std::move(sums), {}});
}

}  // namespace

void require_rank_state(const model::Model& model, const std::vector<checkpoint::LogicalTensor>& tensors,
                        const std::string& path) {
  const auto* state = find_tensor(tensors, kModelState);
  bool fits = state != nullptr;
  if (fits) try {
      const RankState told = unpack(*state);
      fits =
          told.buffers.size() == model.buffers().size() && told.random.size() == model.random_state().size();
    } catch (const Error&) {
      fits = false;
    }
  if (!fits)
    throw Error(
        ErrorKind::Checkpoint,
        path + ": is damaged, or of another model: it has no buffers and random state of this one's size",
        {{}, "read checkpoint", path});
}

checkpoint::LogicalTensor Delayed::pack() const {
  const std::vector<double> numbers = {static_cast<double>(clock.step), static_cast<double>(clock.samples),
                                       clock.rate};
  ConstView bytes = as_const_view(std::span(numbers));
  return {kClock, DType::Float64, {3}, {bytes.data(), bytes.data() + bytes.size()}};
}

std::optional<Delayed> Delayed::find(const checkpoint::Checkpoint& checkpoint) {
  const auto* packed = find_tensor(checkpoint.optimiser, kClock);
  if (!packed || packed->bytes.size() != 3 * sizeof(double)) return {};
  double numbers[3];
  std::memcpy(numbers, packed->bytes.data(), sizeof numbers);
  constexpr double kExact = 9e15;
  if (!std::isfinite(numbers[2]) || !(numbers[0] >= 0 && numbers[0] < kExact) ||
      !(numbers[1] >= 0 && numbers[1] < kExact))
    throw Error(ErrorKind::Checkpoint, "the checkpoint's delayed step is damaged: its clock is none");
  return Delayed{{static_cast<std::int64_t>(numbers[0]), static_cast<std::int64_t>(numbers[1]), numbers[2]}};
}

task::Task<int> find_node(comm::Runtime* runtime, Agreement* agreement, const plan::Plan* plan) {
  if (!exchange::asks_for_nodes(plan->exchange.levels)) co_return 0;
  if (plan->mesh.node > 0) co_return plan->mesh.node;
  int first = 0;  // that shares memory with this rank
  while (first < runtime->rank().value() && !runtime->transport.path(Rank(first)).shared_memory) ++first;
  Packer packer;
  packer.number(first);
  auto answers = co_await agreement->gather(packer.take());
  std::vector<std::int64_t> firsts;
  for (std::size_t m = 0; m < answers.size(); ++m) {
    const Rank from(static_cast<std::int32_t>(m));
    firsts.push_back(Unpacker(answers[m], from).number());
    if (firsts.back() < 0 || firsts.back() > static_cast<std::int64_t>(m))
      throw comm::told_wrong(from, "search for nodes", fmt::format("rank {} for the first", firsts.back()));
  }
  const auto node = std::count(firsts.begin(), firsts.end(), 0);
  const auto world = static_cast<std::int64_t>(firsts.size());
  bool regular = world % node == 0;
  for (std::int64_t r = 0; r < world; ++r)
    regular = regular && firsts[static_cast<std::size_t>(r)] == r - r % node;
  if (!regular)
    throw Error(
        ErrorKind::Usage,
        "exchange.levels: ranks that share memory are not consecutive or not equally many everywhere; "
        "say with mesh.node how many consecutive ranks make a node");
  co_return static_cast<int>(node);
}

task::Task<std::vector<exchange::LevelShape>> agree_on_shapes(RankGroups ranks) {
  Packer packer;
  std::vector<const comm::Communicator*> groups;
  for (std::size_t l = 0; l < ranks.levels.size(); ++l) groups.push_back(&ranks.levels.group(l));
  if (ranks.outer) groups.push_back(&ranks.outer->group(0));
  for (const comm::Communicator* group : groups) packer.number(group->shares_memory() ? 1 : 0);
  auto answers = co_await ranks.data_agreement.gather(packer.take());
  std::vector<exchange::LevelShape> shapes;
  for (const comm::Communicator* group : groups) shapes.push_back({group->size(), true});
  for (std::size_t m = 0; m < answers.size(); ++m) {
    Unpacker unpacker(answers[m], ranks.data.global(static_cast<int>(m)));
    for (exchange::LevelShape& shape : shapes) shape.shares_memory &= unpacker.number() == 1;
  }
  co_return shapes;
}

/// At the first rank of every part: what it goes on from, if there is anything. Rank 0 reads.
task::Task<std::optional<Restored>> find_restored(TrainContext world, const TrainOptions* options,
                                                  RankGroups ranks, const model::ModelSpec* whole) {
  std::optional<Restored> restored;
  if (ranks.group.rank() == 0 && options->start == TrainOptions::Start::Resume) {
    auto read = on_compute(&world.runtime, "read checkpoint", [&] {
      restored = read_restored(world.storage, world.model, *whole, world.datasets.train->size(), *options);
    });
    co_await read;
    if (!restored)
      world.observer.noticed(
          fmt::format("no checkpoint in {}: training starts from the beginning", options->out));
    else
      for (const std::string& notice : restored->notices) world.observer.noticed(notice);
    if (restored) restored->same_mesh = has_mesh(*restored, *options, ranks);
  }
  if (!ranks.replica) co_return restored;
  const plan::MeshPlan& mesh = options->plan.mesh;
  const model::ModelSpec& spec = world.model.spec();
  const checkpoint::Checkpoint* const checkpoint = restored ? &restored->checkpoint : nullptr;
  const bool same = checkpoint && restored->same_mesh;
  Packer packer;
  packer.number(restored ? restored->plan.resolved.optimiser_begun : 0);
  const std::vector<std::byte> begun = co_await ranks.replica->agreement.broadcast(packer.take());
  auto part = co_await hand_out_parts(ranks, &mesh, &spec, checkpoint, same);
  if (!part) co_return std::nullopt;
  restored.emplace();
  restored->plan = options->plan;
  restored->plan.resolved.optimiser_begun = Unpacker(begun, ranks.replica->group.global(0)).number();
  restored->parameters = parameters_from(part->weights, spec, options->out);
  restored->checkpoint = std::move(*part);
  restored->same_mesh = !restored->checkpoint.per_rank.empty();
  co_return restored;
}

task::Task<RunStart> begin(TrainContext world, const TrainOptions* options, RankGroups ranks,
                           const model::ModelSpec* whole) {
  comm::Communicator* group = &ranks.data;
  RunStart run_start;
  run_start.plan = options->plan;
  bool root = group->rank() == 0;
  std::vector<exchange::LevelShape> shapes = co_await agree_on_shapes(ranks);
  const LevelLinks links = co_await probe_levels(ranks, &options->plan, &options->own);
  std::optional<plan::Plan> plan_before;
  bool same_mesh = false;
  std::int64_t begun = 0;
  std::optional<checkpoint::LogicalTensor> buffers;  // of other ranks
  if (root) {
    if (ranks.replica) {
      run_start.plan = co_await share_plan(ranks.replica, options);
    }
    std::optional<Restored> restored = co_await find_restored(world, options, ranks, whole);
    if (restored) {
      same_mesh = restored->same_mesh;
      if (!same_mesh) buffers = mean_buffers(*restored, buffer_count(world.model.spec()));
      run_start.restored = std::move(restored->checkpoint);
      run_start.parameters = std::move(restored->parameters);
      plan_before = std::move(restored->plan);
    }
  }
  std::vector<std::vector<std::byte>> rank_tensors(static_cast<std::size_t>(root ? group->size() : 0));
  if (root) {
    plan::ResolvedPlan& resolved = run_start.plan.resolved;
    begun = plan_before ? plan_before->resolved.optimiser_begun : 0;
    const exchange::FactorGroup factors{shapes.front().size, ranks.group.size()};
    // Collectives depend on the group: a run that resumes with other ranks chooses again.
    std::vector<plan::BucketPlan> before;
    if (plan_before && cuts_alike(plan_before->exchange, run_start.plan.exchange))
      before = plan_before->resolved.buckets;
    run_start.same_buckets = !before.empty();
    if (!before.empty()) {
      resolved = std::move(plan_before->resolved);
      const optim::RuleRow& rule = optim::find_rule(options->plan.optimiser.rule, options->own.rules);
      if (rule.by_tensor && std::any_of(resolved.buckets.begin(), resolved.buckets.end(),
                                        [](const plan::BucketPlan& bucket) { return bucket.parts > 1; }))
        throw Error(ErrorKind::Usage,
                    fmt::format("optimiser.rule {} needs whole tensors, and the checkpoint's "
                                "run cut some into slices; train anew",
                                rule.name));
    } else {
      resolved.buckets = co_await decide_buckets(world, options, ranks.group.size(), factors);
    }
    if (!run_start.restored) {
      auto read = on_compute(&world.runtime, "read parameters",
                             [&] { run_start.parameters = world.model.parameters(); });
      co_await read;
    }
    const std::vector<exchange::Tensor> tensors = trainable(world.model.spec());
    exchange::size_factors(run_start.plan, tensors, factors);
    exchange::resolve_exchange(run_start.plan, shapes, options->own);
    exchange::explain_factors(run_start.plan, tensors, factors);
    const CodecChoice choice{&links, &before, &options->own};
    co_await choose_codecs(world, ranks, choice, &run_start.plan);
    tell_of_codecs_inside_hosts(world.observer, run_start.plan, shapes, options->own);
    resolved.world_size = ranks.group.size();
    resolved.train_samples = world.datasets.train->size();
    resolved.node = ranks.node;
    resolved.transport =
        ranks.group.size() == 1 ? "none" : world.runtime.transport.path(ranks.group.global(1)).name;
    const bool same_world = run_start.restored && same_mesh;
    run_start.same_world = same_world;
    std::vector<checkpoint::LogicalTensor> shares;
    if (run_start.restored && !same_world)
      shares = share_kept(*run_start.restored, run_start.plan, ranks.group.size());
    const bool shared = !shares.empty();
    if (buffers) shares.push_back(*buffers);
    for (std::size_t r = 0; r < rank_tensors.size(); ++r) {
      Packer packer;
      packer.tensors(same_world ? run_start.restored->per_rank[r] : shares);
      rank_tensors[r] = packer.take();
    }
    if (run_start.restored && !same_world)
      world.observer.noticed(
          fmt::format("the checkpoint is of another world size or mesh: {} as in a fresh run{}",
                      buffers ? "buffers are the mean of what its ranks had, random state starts"
                              : "buffers and random state start",
                      shared ? ", and each rank gets an equal share of what all had kept and not sent"
                             : ", as does what else a rank had for itself"));
  }
  Packer packer;
  if (root) {
    if (run_start.restored) {
      run_start.delayed = Delayed::find(*run_start.restored);
      const auto& ranks_before = run_start.restored->per_rank;
      run_start.were_apart = std::any_of(ranks_before.begin(), ranks_before.end(), trained_apart);
      const auto& levels = run_start.plan.exchange.levels;
      if (run_start.delayed) require_place_for_delayed(run_start.plan.exchange);
      if (run_start.were_apart && run_start.same_world && !exchange::replicas_are_equal(levels))
        require_same_meetings(plan_before->exchange.levels.back(), levels.back(), run_start.restored->steps);
    }
    run_start.plan.resolved.optimiser_begun = plan_before ? optimiser_begun(run_start, begun) : 0;
    packer.text(plan::write_plan(run_start.plan));
    packer.number(run_start.restored ? 1 : 0);
    packer.number(run_start.same_world ? 1 : 0);
    packer.number(run_start.same_buckets ? 1 : 0);
    packer.number(run_start.restored ? run_start.restored->steps : 0);
    packer.number(run_start.restored ? run_start.restored->samples : 0);
    packer.number(run_start.restored && !run_start.restored->optimiser.empty() ? 1 : 0);
    packer.number(run_start.were_apart ? 1 : 0);
    packer.number(run_start.delayed ? 1 : 0);
    if (run_start.delayed) {
      packer.number(run_start.delayed->clock.step);
      packer.number(run_start.delayed->clock.samples);
      packer.real(run_start.delayed->clock.rate);
    }
  }
  std::vector<std::byte> told = co_await ranks.data_agreement.broadcast(packer.take());
  const Rank first = group->global(0);
  Unpacker unpacker(told, first);
  const std::string plan = unpacker.text();
  if (!root) run_start.plan = told_by(first, plan, options->plan);
  if (!root) check_resolved(first, run_start.plan, shapes, {world, ranks, options->own});
  run_start.resumed = unpacker.number() == 1;
  run_start.same_world = unpacker.number() == 1;
  run_start.same_buckets = unpacker.number() == 1;
  run_start.steps = unpacker.number();
  run_start.samples = unpacker.number();
  run_start.has_optimiser = unpacker.number() == 1;
  run_start.were_apart = unpacker.number() == 1;
  if (unpacker.number() == 1) {
    run_start.delayed.emplace();
    run_start.delayed->clock.step = unpacker.number();
    run_start.delayed->clock.samples = unpacker.number();
    run_start.delayed->clock.rate = unpacker.real();
  }
  const optim::StepClock clock = run_start.delayed ? run_start.delayed->clock : optim::StepClock{};
  if (!comm::is_count(run_start.steps) || !comm::is_count(run_start.samples) ||
      (run_start.steps > 0 && run_start.samples == 0) || !comm::is_count(clock.step) ||
      !comm::is_count(clock.samples) || !std::isfinite(clock.rate))
    throw comm::told_wrong(
        first, "start",
        fmt::format("{} steps and {} samples before this run", run_start.steps, run_start.samples));
  if (run_start.resumed) {
    std::vector<std::byte> own = co_await ranks.data_agreement.hand_out(std::move(rank_tensors));
    run_start.rank_tensors = Unpacker(own, first).tensors();
  }
  co_return run_start;
}

task::Task<void> restore_optimiser(TrainContext world, RankGroups ranks, const RunStart* run_start,
                                   State* state) {
  ShardTransfer shards(ranks.data, ranks.levels, state->layout());
  const bool root = ranks.data.rank() == 0;
  for (const auto& [name, arena] : state->rule().state()) {
    tensor::Arena own;  // what rank 0 scatters
    if (root && shards.exist())
      own = tensor::Arena(arena->type(), state->layout().arena.size(), arena->bytes());
    const tensor::Arena* whole = shards.exist() ? &own : arena;
    auto fill = on_data(&world.runtime, "optimiser's state", [&, name = name] {
      if (root) state->fill(name, run_start->restored->optimiser, *whole);
    });
    co_await fill;
    auto spreading = shards.exist() ? shards.scatter(whole, arena) : spread(&ranks.data, whole);
    co_await spreading;
  }
}

/// All begin with the first rank's, as with its weights.
task::Task<void> spread_buffers(TrainContext world, RankGroups ranks) {
  std::vector<double> values(buffer_count(world.model.spec()));
  auto read = on_compute(&world.runtime, "read buffers", [&] { values = world.model.buffers(); });
  co_await read;
  Packer packer;
  packer.numbers(values);
  const std::vector<std::byte> told = co_await ranks.data_agreement.broadcast(packer.take());
  const Rank first = ranks.data.global(0);
  values = Unpacker(told, first).numbers();
  if (values.size() != buffer_count(world.model.spec()))
    throw comm::told_wrong(first, "buffers", fmt::format("{} numbers", values.size()));
  auto write = on_compute(&world.runtime, "write buffers", [&] { world.model.set_buffers(values); });
  co_await write;
}

task::Task<void> restore(TrainContext world, RankGroups ranks, RunStart* run_start, State* state) {
  comm::Communicator* group = &ranks.data;
  tensor::Arena own;  // of weights in parts what the first rank scatters
  if (group->rank() == 0) {
    if (state->in_parts())
      own = tensor::Arena(state->master().type(), state->layout().arena.size(), state->master().bytes());
    auto fill = on_data(&world.runtime, "initial weights", [&] {
      state->set_weights(run_start->parameters, state->in_parts() ? own : state->master());
      if (run_start->delayed)
        state->fill(Delayed::kSums, run_start->restored->optimiser, state->gradients(0));
    });
    co_await fill;
  }
  std::vector<const tensor::Arena*> arenas = {&state->frozen()};
  if (state->in_parts()) {
    ShardTransfer shards(ranks.data, ranks.levels, state->layout());
    co_await shards.scatter(&own, &state->master());
    own = {};
  } else {
    arenas.push_back(&state->master());
  }
  if (run_start->delayed) arenas.push_back(&state->gradients(0));
  for (const tensor::Arena* arena : arenas) {
    co_await spread(group, arena);
  }
  // Replicas that train apart have their own, unless the checkpoint was written when they were equal.
  const auto& levels = run_start->plan.exchange.levels;
  const bool equal = exchange::replicas_are_equal(levels);
  const bool has_part =
      equal ? !run_start->were_apart : !exchange::served_level(levels) && run_start->has_optimiser;
  if (run_start->resumed && has_part) {
    co_await restore_optimiser(world, ranks, run_start, state);
  }
  if (run_start->were_apart && equal && ranks.group.rank() == 0 && !state->rule().state().empty())
    world.observer.noticed(
        "replicas of the checkpoint trained apart, each with its own optimiser's state: it starts as in a "
        "fresh run");
  state->rule().set_zero_at({0, state->layout().shard}, run_start->plan.resolved.optimiser_begun);
  co_await restore_kept(world, ranks, run_start, state);
  if (!run_start->resumed && buffer_count(world.model.spec()) > 0) {
    co_await spread_buffers(world, ranks);
  }
  auto bind = on_compute(&world.runtime, "bind", [&] {
    if (auto parameters = state->parameters(); !parameters.empty()) world.model.set_parameters(parameters);
    restore_rank_state(world.model, run_start->rank_tensors);
    model::Binding binding = state->binding();
    binding.pieces_are_awaited = ranks.lasting.size() > 1;
    world.model.bind(binding);
  });
  co_await bind;
  state->drop_frozen();
  run_start->restored.reset();
  run_start->parameters = {};
}

}  // namespace taxon::train
