#include "train/state/replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "exchange/cast.h"
#include "plan/asynchrony.h"

namespace taxon::train {
namespace {

constexpr const char* kWeights = "replica";
constexpr const char* kAnswers = "answers";
constexpr const char* kServer = "server ";
constexpr const char* kUpdates = "server updates";
constexpr const char* kBegun = "optimiser begun";  // by bucket: RunStart's, but for meetings since
constexpr const char* kMeets = "meets ";

/// Workers and servers: all ranks, or those of equal position in every node.
comm::Communicator& served_group(RankGroups ranks) {
  const bool nested = !ranks.outer && ranks.levels.size() > 1;
  return nested ? ranks.levels.group(ranks.levels.size() - 1) : ranks.lasting;
}

exchange::ParameterServer::Setup make_service(RankGroups ranks, const Replicas::Setup& from) {
  const State& state = *from.state;
  const plan::Plan& plan = *from.plan;
  const plan::LevelPlan& level = *exchange::served_level(plan.exchange.levels);
  const tensor::Arena& weights = state.master();
  auto rate = [rate = optim::LearningRate(plan.learning_rate, from.total, from.own.schedules)](
                  std::int64_t samples) { return rate.at(samples); };
  exchange::ParameterServer::Setup setup;
  setup.layout = &state.layout();
  setup.group = &served_group(ranks);
  for (const exchange::Bucket& bucket : state.layout().buckets)
    setup.ranges.push_back(ranks.outer ? bucket.range
                                       : ranks.levels.reaching(ranks.levels.size() - 1, bucket.range));
  setup.roles = {setup.group->size(), plan.mesh.servers};
  setup.level = &level;
  setup.seed = plan.seed;
  setup.consistency = &exchange::find_consistency(level.consistency, from.own.consistencies);
  setup.weights = &weights;
  setup.log = from.log;
  setup.failures = from.failures;
  setup.coders = std::make_unique<exchange::ServerCoders>(
      exchange::TopologyContext{level, plan.seed, plan.mesh.servers, from.own.graphs, from.own.codecs});
  setup.late = [&level, &weights, workers = setup.roles.workers(),
                own = from.own.late_rules](std::size_t owned) {
    return optim::find_late(level.late, own).make(level, {weights.type(), owned, workers, weights.bytes()});
  };
  if (level.rule == "sum") {
    plan::OptimiserPlan optimiser = plan.optimiser;
    optimiser.momentum = plan::momentum_at_servers(plan, ranks.group.size(), exchange::catalogue(from.own));
    setup.owner =
        exchange::make_weight_server(state.make_rule_of_all(optimiser),
                                     tensor::Arena(weights.type(), weights.size(), weights.bytes()), rate);
  } else {
    setup.owner = exchange::make_centre_server(
        optim::find_outer(level.rule, from.own.outer_rules)
            .make(level, {weights.type(), weights.size(), setup.roles.workers(), weights.bytes()}),
        rate);
  }
  return setup;
}

/// A packed arena: without names inside, in the order of the buckets, and nothing that could be put into
/// another order. So its name says which values lie where.
std::string packed_name(const State& state, const Replicas::Owned& owned) {
  std::string order;
  for (const tensor::Slot& slot : state.layout().arena.slots())
    order += fmt::format("{} {}\n", slot.name, slot.range.begin);
  for (Range range : owned.ranges) order += fmt::format("{} {}\n", range.begin, range.size);
  TensorHash hash;
  hash.add(0, as_const_view(std::span<const char>(order)));
  return fmt::format("{} packed {:016x}{}", owned.name, hash.value(),
                     state.has_channels_last() ? ", channels last" : "");
}
/// Of checkpoints that don't say which.
std::string unordered_name(const State& state, const std::string& name) {
  return state.has_channels_last() ? name + ", channels last" : name;
}

/// True if it has the weights' layout.
bool is_whole(const State& state, const Replicas::Owned& owned) {
  const auto& buckets = state.layout().buckets;
  return owned.values->size() == state.layout().arena.size() &&
         std::equal(buckets.begin(), buckets.end(), owned.ranges.begin(), owned.ranges.end(),
                    [](const exchange::Bucket& bucket, Range range) { return bucket.range == range; });
}

std::vector<checkpoint::LogicalTensor> pack(const State& state, const Replicas::Owned& owned) {
  if (is_whole(state, owned)) return state.named(owned.name, *owned.values);
  const View bytes = owned.values->bytes();
  return {{packed_name(state, owned),
           owned.values->type(),
           {static_cast<std::int64_t>(owned.values->size())},
           {bytes.data(), bytes.data() + bytes.size()}}};
}

/// True if there are tensors of an arena with this name.
bool has(const std::vector<checkpoint::LogicalTensor>& tensors, const std::string& name) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const auto& tensor) { return tensor.name.starts_with(name + "/"); });
}

void unpack(const State& state, const RunStart& run_start, const Replicas::Owned& owned) {
  const auto& tensors = run_start.rank_tensors;
  const bool whole = is_whole(state, owned);
  if (whole && state.holds(owned.name, tensors, *owned.values))
    return state.fill(owned.name, tensors, *owned.values);
  const std::string packed = whole ? "" : packed_name(state, owned);
  const std::string unordered = run_start.same_buckets ? unordered_name(state, owned.name) : "";
  const View bytes = owned.values->bytes();
  for (const auto& tensor : tensors)
    if ((tensor.name == packed || tensor.name == unordered) && tensor.bytes.size() == bytes.size()) {
      if (!bytes.empty()) std::memcpy(bytes.data(), tensor.bytes.data(), bytes.size());
      return;
    }
  throw Error(
      ErrorKind::Checkpoint,
      fmt::format(
          "the checkpoint has no {} of this size and order for this rank: it was written with another "
          "exchange.levels, bucket_bytes, slice_bytes, precision or model.memory_format; resume with "
          "those",
          unordered_name(state, owned.name)));
}

/// One for each bucket.
checkpoint::LogicalTensor pack(const std::string& name, std::span<const double> numbers) {
  const ConstView bytes = as_const_view(numbers);
  return {name,
          DType::Float64,
          {static_cast<std::int64_t>(numbers.size())},
          {bytes.data(), bytes.data() + bytes.size()}};
}

/// False if there are not so many.
bool unpack(const std::vector<checkpoint::LogicalTensor>& tensors, const std::string& name,
            std::span<double> numbers) {
  const View bytes = as_view(numbers);
  const auto kept = std::find_if(tensors.begin(), tensors.end(), [&](const auto& tensor) {
    return tensor.name == name && tensor.bytes.size() == bytes.size();
  });
  if (kept == tensors.end()) return false;
  std::memcpy(bytes.data(), kept->bytes.data(), bytes.size());
  return true;
}

}  // namespace

bool trained_apart(const std::vector<checkpoint::LogicalTensor>& of_rank) { return has(of_rank, kWeights); }

Replicas::Replicas(comm::Runtime& runtime, RankGroups ranks, const Setup& setup)
    : runtime_(runtime),
      ranks_(ranks),
      state_(setup.state),
      observer_(setup.observer),
      served_(exchange::served_level(setup.plan->exchange.levels)) {
  State* state = setup.state;
  const plan::Plan* plan = setup.plan;
  const exchange::Roles roles{ranks.group.size(), plan->mesh.servers};
  if (served_ && roles.serves(ranks.group.rank()))
    server_ = std::make_unique<exchange::ParameterServer>(runtime, make_service(ranks, setup));
  if (!ranks.outer) return;
  const exchange::Arenas arenas = state->arenas(0);
  outer_loop_ = std::make_unique<exchange::OuterLoop>(
      runtime,
      exchange::OuterLoop::Setup{&state->layout(), &plan->exchange.levels.back(), setup.own,
                                 plan->exchange.levels.size() - 1, &ranks.levels, ranks.outer,
                                 served_ ? roles.workers() : ranks.outer->group(0).size(), &state->rule(),
                                 arenas.master, arenas.compute, &state->handed_in()});
}

task::Task<void> Replicas::begin(const RunStart* run_start) {
  if (!apart()) co_return;
  if (ranks_.outer) ranks_.outer->prepare(state_->handed_in(), state_->layout().arena.slots());
  if (outer_loop_) {
    co_await outer_loop_->begin();
  }
  if (server_) {
    co_await server_->open();
  }
  // A checkpoint of replicas that were equal has their weights, and the optimiser's state, of all alike.
  const bool has_own = run_start->same_world && trained_apart(run_start->rank_tensors);
  if (has_own) {
    if (outer_loop_) make_other();
    auto filling = on_data(&runtime_, "replica", [&] {
      if (outer_loop_) exchange::cast_range(state_->master(), other_, {0, other_.size()});
      fill(*run_start);
    });
    co_await filling;
    if (outer_loop_) outer_loop_->resume(run_start->steps);
  }
  if (server_) server_->serve(run_start->steps, run_start->samples);
  if (!outer_loop_) co_return;
  co_await outer_loop_->serve();
  if (run_start->rank_tensors.empty()) co_return;
  std::string missing;
  auto keeping = on_data(&runtime_, "replica", [&] {
    for (const exchange::StateArena& kept : ranks_.outer->state()) {
      const std::string name = kMeets + kept.name;
      if (state_->holds(name, run_start->rank_tensors, *kept.values)) {
        state_->fill(name, run_start->rank_tensors, *kept.values);
      } else if (has_own) {
        // Replicas differ, so it must begin as what stands for the model, as all have it.
        if (kept.agreed) exchange::cast_range(other_, *kept.values, {0, other_.size()});
        missing += (missing.empty() ? "" : ", ") + name;
      }
    }
  });
  co_await keeping;
  if (!missing.empty() && ranks_.group.rank() == 0)
    observer_->noticed(fmt::format(
        "the checkpoint's replicas met in another way and have no {} of this size: it starts as in a fresh "
        "run of the checkpoint's model",
        missing));
}

/// What is packed of a rank's own: the optimiser's state, and that of its rules where replicas meet.
std::vector<Replicas::Owned> Replicas::owned() const {
  const auto& buckets = state_->layout().buckets;
  std::vector<Owned> all;
  std::vector<Range> ranges;
  for (const exchange::Bucket& bucket : buckets) ranges.push_back(bucket.owned);
  for (const auto& [name, arena] : state_->rule().state()) all.push_back({name, arena, ranges});
  if (outer_loop_) {
    for (Range& range : ranges) range = ranks_.outer->owned(range);
    for (const auto& [name, arena] : outer_loop_->rule().state()) all.push_back({name, arena, ranges});
  }
  if (server_)
    for (const auto& [name, arena] : server_->state())
      all.push_back({kServer + name, arena, server_->owned()});
  return all;
}

void Replicas::fill(const RunStart& run_start) {
  const std::vector<checkpoint::LogicalTensor>& tensors = run_start.rank_tensors;
  state_->fill(kWeights, tensors, state_->master());
  for (const Owned& each : owned()) unpack(*state_, run_start, each);
  if (outer_loop_) {
    state_->fill(kAnswers, tensors, state_->handed_in());
    const auto& buckets = state_->layout().buckets;
    std::vector<double> begun(buckets.size());
    if (unpack(tensors, kBegun, begun))
      for (std::size_t b = 0; b < begun.size(); ++b) {
        if (!(begun[b] >= 0 && begun[b] <= static_cast<double>(run_start.steps)))
          throw Error(ErrorKind::Checkpoint, "the checkpoint is damaged: a replica's optimiser began later");
        state_->rule().set_zero_at({buckets[b].shard, buckets[b].owned.size},
                                   static_cast<std::int64_t>(begun[b]));
      }
  }
  if (server_) {
    for (const auto& [name, arena] : server_->owner().state()) state_->fill(kServer + name, tensors, *arena);
    const auto updates = server_->updates().values<double>({0, server_->updates().size()});
    if (!unpack(tensors, kUpdates, updates))  // of before they were kept
      std::fill(updates.begin(), updates.end(), static_cast<double>(run_start.steps));
  }
  const exchange::Arenas arenas = state_->arenas(0);
  if (arenas.compute != arenas.master)
    exchange::cast_range(*arenas.master, *arenas.compute, {0, arenas.master->size()});
}

task::Task<Replicas::Staleness> Replicas::count_staleness() const {
  constexpr std::size_t kMost = 256;  // later ones are counted with these
  std::vector<double> counts(kMost + 1);
  if (server_) {
    const auto& own = server_->staleness();
    for (std::size_t late = 0; late < own.size(); ++late)
      counts[std::min(late, kMost - 1)] += static_cast<double>(own[late]);
    counts[kMost] = static_cast<double>(server_->dropped());
  }
  auto summing = ranks_.agreement.sum(std::move(counts));
  Staleness staleness;
  staleness.counts = co_await summing;
  staleness.dropped = staleness.counts[kMost];
  staleness.counts.pop_back();
  while (staleness.counts.size() > 1 && staleness.counts.back() == 0) staleness.counts.pop_back();
  co_return staleness;
}

std::vector<checkpoint::LogicalTensor> Replicas::tensors() const {
  auto tensors = state_->named(kWeights, state_->master());
  auto add = [&](std::vector<checkpoint::LogicalTensor> more) {
    std::move(more.begin(), more.end(), std::back_inserter(tensors));
  };
  for (const Owned& each : owned()) add(pack(*state_, each));
  if (outer_loop_) {
    add(state_->named(kAnswers, state_->handed_in()));
    for (const exchange::StateArena& kept : ranks_.outer->state())
      add(state_->named(kMeets + kept.name, *kept.values));
    std::vector<double> begun;
    for (const exchange::Bucket& bucket : state_->layout().buckets)
      begun.push_back(static_cast<double>(state_->rule().zero_at(bucket.shard)));
    tensors.push_back(pack(kBegun, begun));
  }
  if (server_) {
    for (const auto& [name, arena] : server_->owner().state()) add(state_->named(kServer + name, *arena));
    tensors.push_back(pack(kUpdates, server_->updates().values<double>({0, server_->updates().size()})));
  }
  return tensors;
}

/// A dedicated server has no step of its own that it would wait for.
task::Task<void> Replicas::arrive() {
  if (!served_) co_return;
  auto agreeing = ranks_.agreement.sum({0.0});
  co_await agreeing;
  if (!server_) co_return;
  co_await server_->quiet();
}

void Replicas::make_other() {
  const tensor::Arena& master = state_->master();
  if (other_.size() == 0) other_ = tensor::Arena(master.type(), master.size(), master.bytes());
}

task::Task<void> Replicas::load_consensus() {
  if (!apart()) co_return;
  make_other();
  if (outer_loop_) {  // so that nothing else is on its way
    co_await outer_loop_->arrive();
  }
  const std::uint64_t before = runtime_.transport.traffic().bytes_sent;
  co_await arrive();
  auto showing = served_ ? gather_owned() : outer_loop_->gather_consensus(ranks_.group, other_);
  co_await showing;
  consensus_bytes_ += runtime_.transport.traffic().bytes_sent - before;
  co_await swap();
}

/// Every server's parts, at every rank: as a sum to which each adds what it owns.
task::Task<void> Replicas::gather_owned() {
  auto copy = on_compute(&runtime_, "owned", [&] {
    std::memset(other_.bytes().data(), 0, other_.bytes().size());
    if (!server_) return;
    for (Range range : server_->owned()) exchange::cast_range(server_->owner().values(), other_, range);
  });
  co_await copy;
  if (ranks_.group.size() == 1) co_return;
  const auto& ring = comm::find_row(net::Operation::AllReduce, "ring");
  comm::Call call{other_.bytes(), other_.type(), exchange::kConsensusUnit};
  co_await ring.run(ranks_.group, call);
}

task::Task<void> Replicas::pause(std::int64_t step) {
  auto pausing = outer_loop_ ? outer_loop_->pause(step) : ranks_.levels.pause();
  co_await pausing;
}

task::Task<void> Replicas::close() {
  std::vector<Range> units;
  for (const exchange::Bucket& bucket : state_->layout().buckets) units.push_back(bucket.range);
  auto closing =
      outer_loop_ ? outer_loop_->close() : ranks_.levels.close(std::move(units), &state_->master());
  co_await closing;
  if (!server_) co_return;
  co_await server_->closed();
}

task::Task<void> Replicas::abandon(std::exception_ptr why) {
  if (outer_loop_) {
    co_await outer_loop_->abandon(why);
  }
  if (server_) {
    co_await server_->abandon(why);
  }
}

task::Task<void> Replicas::restore_local() {
  if (!apart()) co_return;
  co_await swap();
}

task::Task<void> Replicas::swap() {
  const exchange::Arenas arenas = state_->arenas(0);
  auto body = [this, arenas] {
    View shown = arenas.master->bytes(), other = other_.bytes();
    std::swap_ranges(shown.data(), shown.data() + shown.size(), other.data());
    if (arenas.compute != arenas.master)
      exchange::cast_range(*arenas.master, *arenas.compute, {0, arenas.master->size()});
  };
  auto swapping = on_compute(&runtime_, "show", body, {0, 3 * arenas.master->bytes().size()});
  co_await swapping;
}

}  // namespace taxon::train
