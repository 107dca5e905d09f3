#include "exchange/exchange.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

#include "comm/collectives.h"
#include "exchange/cast.h"
#include "exchange/kernels.h"
#include "exchange/layout/shard.h"
#include "tensor/finite.h"

namespace taxon::exchange {
namespace {

// An update on the compute stream must be worth waking its threads.
constexpr std::size_t kSharedElements = 128 * 1024;
constexpr int kUpdatesAhead = 3;

/// Keys of the buckets for their scheduler. The next forward pass reads the first segments first.
std::vector<int> lane_keys(const std::vector<Bucket>& buckets, plan::BucketOrder order) {
  std::vector<int> keys(buckets.size(), 0);
  if (order == plan::BucketOrder::Priority)
    for (std::size_t b = 0; b < buckets.size(); ++b) keys[b] = buckets[b].segments.front();
  return keys;
}

}  // namespace

Exchange::Exchange(comm::Runtime& runtime, const Setup& setup)
    : runtime_(runtime),
      layout_(*setup.layout),
      arenas_(setup.arenas),
      levels_(*setup.levels),
      rule_(*setup.rule),
      wire_lane_(setup.lane),
      summands_(setup.summands),
      in_strips_(levels_.are_whole()),
      replica_(setup.replica),
      order_(lane_keys(layout_.buckets, setup.plan->exchange.order)),
      stops_(setup.plan->on_divergence == plan::OnDivergence::Stop),
      delayed_(setup.plan->exchange.delay > 0),
      shares_(setup.plan->resolved.overlap == plan::ResolvedOverlap::Backward && aliased()),
      team_(setup.team),
      alone_(shares_ && team_ > 1 && !delayed_ && !in_ring() && is_alone()),
      by_tensor_(setup.by_tensor),
      at_once_(alone_ && !by_tensor_ && setup.plan->optimiser.clip_norm == 0 && is_plain()),
      outward_(runtime, setup.plan->exchange.in_flight),
      back_(runtime, setup.plan->exchange.in_flight),
      // Of a team's updates the next is at the compute stream before the last one ends.
      updates_(runtime, shares_ && team_ > 1 ? kUpdatesAhead : 1),
      scope_(setup.plan->optimiser.clip_norm > 0
                 ? std::make_unique<GlobalNormClip>(runtime, setup.plan->optimiser.clip_norm)
                 : nullptr),
      gates_(static_cast<std::size_t>(setup.segments)),
      children_(runtime.pending()) {}

void Exchange::begin(optim::StepClock clock) {
  TAXON_CHECK(children_.live() == 0, children_.live(), " buckets of the last step are still in flight");
  auto event = [this] { return std::make_unique<task::Event>(runtime_.executor(), runtime_.pending()); };
  clock_ = clock;
  underway_ = true;
  outward_.begin(order_);
  back_.begin(order_);
  updates_.begin(order_);
  if (scope_) scope_->begin(static_cast<int>(buckets().size()));
  safe_point_ = event();
  contributed_.assign(buckets().size(), 0);
  summed_.clear();
  adopted_.clear();
  for (std::size_t b = 0; b < buckets().size(); ++b) {
    summed_.push_back(event());
    adopted_.push_back(event());
  }
  for (Gate& gate : gates_) gate = {0, event()};
  for (const Bucket& bucket : buckets())
    for (int segment : bucket.segments) ++gates_[static_cast<std::size_t>(segment)].missing;
  for (Gate& gate : gates_)
    if (gate.missing == 0) gate.open->set();
}

void Exchange::contribute(tensor::KernelHandle& backward, int segment) {
  if (at_once_) {
    if (segment == 0) children_.spawn(update_at_once());
    return;
  }
  for (std::size_t b = 0; b < buckets().size(); ++b) {
    if (contributed_[b] || buckets()[b].segments.front() < segment) continue;
    contributed_[b] = 1;
    children_.spawn(reconcile(&buckets()[b], &backward, Sums::ToCome));
  }
}

void Exchange::go_on_with_sums() {
  for (const Bucket& bucket : buckets()) children_.spawn(reconcile(&bucket, nullptr, Sums::There));
}

void Exchange::safe_point() { safe_point_->set(); }

task::Task<void> Exchange::room(int segment) {
  for (const Bucket& bucket : buckets()) {
    if (std::find(bucket.segments.begin(), bucket.segments.end(), segment) == bucket.segments.end()) continue;
    for (int before : bucket.after) {
      auto free = summed_[static_cast<std::size_t>(before)]->wait("room for gradients", bucket.name);
      co_await free;
    }
  }
}

task::Task<void> Exchange::summed() {
  for (const Bucket& bucket : buckets()) {
    auto sum = summed_[static_cast<std::size_t>(bucket.id.value())]->wait("sum", bucket.name);
    co_await sum;
  }
}

bool Exchange::is_ready(int segment) const {
  const Gate& gate = gates_[static_cast<std::size_t>(segment)];
  return !gate.open || gate.open->is_set();
}

task::Task<void> Exchange::ready(int segment) {
  if (is_ready(segment)) co_return;
  auto open = gates_[static_cast<std::size_t>(segment)].open->wait("forward pass",
                                                                   "segment " + std::to_string(segment));
  co_await open;
}

task::Task<void> Exchange::adopted(std::size_t bucket) {
  if (adopted_.empty()) co_return;
  auto there = adopted_[bucket]->wait("forward pass", buckets()[bucket].name);
  co_await there;
}

task::Task<void> Exchange::finish() {
  co_await children_.join();
  underway_ = false;
}

task::Task<void> Exchange::abandon(std::exception_ptr why) {
  if (!runtime_.pending().cancelled()) runtime_.pending().cancel(why);
  try {
    co_await children_.join();
  } catch (...) {
  }
}

/// Every line is one axis of the taxonomy.
task::Task<void> Exchange::reconcile(const Bucket* bucket, tensor::KernelHandle* backward, Sums sums) {
  if (sums == Sums::ToCome) {
    co_await reduce(bucket, backward);  // communication: contributions meet
  }
  summed_[static_cast<std::size_t>(bucket->id.value())]->set();
  optim::StepClock clock = clock_;
  if (scope_) {  // optimisation: scalars over all buckets
    clock.gradient_scale = co_await clip(bucket);
  }
  if (aliased() || delayed_) {  // scheduling: weights never change under a running job
    auto safe = safe_point_->wait("backward", bucket->name);
    co_await safe;
  }
  co_await update(bucket, clock);  // optimisation: the owner updates
  if (layout_.gathered == 0) {     // otherwise they do before their next use
    co_await spread(bucket);       // communication: values travel back
    if (!aliased()) {
      auto safe = safe_point_->wait("backward", bucket->name);
      co_await safe;
      co_await adopt(bucket);
    }
  }
  open_gates(*bucket);
}

bool Exchange::is_alone() const {
  for (std::size_t level = 0; level < levels_.size(); ++level)
    if (levels_.group(level).size() > 1) return false;
  return summands_.empty();
}

/// Nothing between a gradient and its update but the rule.
bool Exchange::is_plain() const {
  return levels_.are_whole() && std::all_of(buckets().begin(), buckets().end(),
                                            [](const Bucket& bucket) { return bucket.factors.rows == 0; });
}

/// Where several ranks have summands of a gradient each adds a strip of them up, the replicas' strips meet,
/// and all get all strips (part-reduce and part-broadcast: Das et al., arXiv 1602.06709): as many bytes as an
/// all-reduce over members and replicas. Owners and codecs need the replicas' sum of the whole first.
task::Task<void> Exchange::reduce(const Bucket* bucket, tensor::KernelHandle* backward) {
  co_await backward->at(bucket->id.value(), bucket->name);
  if (alone_) {
    auto idle = safe_point_->wait("backward", bucket->name);
    co_await idle;
  }
  const bool strips = bucket->summands && in_strips_;
  BucketTransfer outward = transfer(*bucket, bucket->gradients);
  if (strips) {  // before it enters: members may have their buckets in other orders
    co_await examine(bucket);
    co_await among_summands(bucket, net::Operation::ReduceScatter, bucket->gradients);
    const comm::Communicator& members = *summands_[bucket->summands->group];
    outward.range = part(bucket->gradients, static_cast<std::size_t>(members.size()),
                         static_cast<std::size_t>(members.rank()));
  }
  auto enter = outward_.enter(bucket->id.value(), bucket->name);  // overlap: by priority, bounded in flight
  {
    BucketScheduler::Admission turn = co_await enter;
    if (!strips) {
      co_await examine(bucket);
    }
    if (bucket->factors.rows > 0) {
      outward.factors = &bucket->factors;
      outward.factor_arena = arenas_.factors;
    }
    outward.precedence = &turn;
    co_await levels_.reduce(outward, *arenas_.gradients);
  }
  if (in_ring()) {
    co_await keep(bucket);
  }
  if (strips) {
    co_await among_summands(bucket, net::Operation::AllGather, bucket->gradients);
  } else if (bucket->summands) {  // what a codec made of a summand is the same to all who add it
    const Range sums{sums_of(*bucket), bucket->owned.size};
    co_await among_summands(bucket, net::Operation::AllReduce, sums);
  }
}

task::Task<void> Exchange::among_summands(const Bucket* bucket, net::Operation collective, Range sums) {
  const auto& row = comm::find_row(collective, "ring");
  comm::Call call{arenas_.sums->bytes(sums), arenas_.sums->type(), bucket->summands->unit, wire_lane_};
  co_await row.run(*summands_[bucket->summands->group], call);
}

/// Before a codec or a sum hides whose it was.
task::Task<void> Exchange::examine(const Bucket* bucket) {
  if (stops_ && !is_examined_by_update()) {
    co_await require_finite(bucket);
  }
  if (rule_.contributes(clock_)) {
    co_await contribute(bucket);
  }
}

/// Over the owners of this part of the model, and over the parts.
task::Task<double> Exchange::squared_norm_of_all(double owned) {
  double squared = co_await levels_.total(owned, wire_lane_);
  if (!replica_) co_return squared;
  comm::Call call{as_view(std::span(&squared, 1)), DType::Float64, kTotalUnit, wire_lane_};
  const auto& row = comm::find_row(net::Operation::AllReduce, "tree");
  co_await row.run(*replica_, call);
  co_return squared;
}

/// Of a team: of the compute stream's, which is idle.
task::Task<bool> Exchange::is_finite(const Bucket* bucket, int team) {
  const bool factors = bucket->factors.rows > 0;
  const tensor::Arena& arena = factors ? *arenas_.factors : *arenas_.gradients;
  const Range range = factors ? bucket->factors.own : bucket->gradients;
  std::atomic<bool> finite = true;
  tensor::Kernel kernel{"finite",
                        {static_cast<double>(range.size), range.size * size_of(arena.type())},
                        [&finite, &arena, range, team](tensor::Milestones&) {
                          divide_by_lines(team, range, [&](Range values) {
                            if (!tensor::all_finite(arena.type(), arena.bytes(values))) finite = false;
                          });
                        }};
  const tensor::Stream stream = team > 1 ? tensor::Stream::Compute : tensor::Stream::Exchange;
  auto done = run("finite", std::move(kernel), bucket, stream);
  co_await done;
  co_return finite;
}

task::Task<void> Exchange::require_finite(const Bucket* bucket) {
  const int team = alone_ ? team_ : 1;
  const bool finite = co_await is_finite(bucket, team);
  if (!finite) throw not_finite(*bucket);
}

Error Exchange::not_finite(const Bucket& bucket) const {
  const Rank rank = runtime_.rank();
  return diverged(clock_.step + 1,
                  "the gradient of " + bucket.name + " at rank " + std::to_string(rank.value()),
                  {rank, "backward", bucket.name});
}

task::Task<const Bucket*> Exchange::find_not_finite() {
  for (const Bucket& bucket : buckets()) {
    const bool finite = co_await is_finite(&bucket, team_);
    if (!finite) co_return &bucket;
  }
  co_return nullptr;
}

/// What this member hands in is the rule's to make of its gradient. All have the rule's state alike.
task::Task<void> Exchange::contribute(const Bucket* bucket) {
  double members = 1;
  for (std::size_t level = 0; level < levels_.size(); ++level) members *= levels_.group(level).size();
  if (bucket->summands) members *= summands_[bucket->summands->group]->size();
  const optim::UpdateRange place{bucket->owned, bucket->gradients.begin, bucket->shard};
  tensor::Kernel kernel{"contribute",
                        {3.0 * static_cast<double>(place.weights.size),
                         3 * place.weights.size * size_of(arenas_.gradients->type())},
                        [this, place, members](tensor::Milestones&) {
                          rule_.contribute(*arenas_.gradients, place, 1 / members);
                        }};
  auto done = run("contribute", std::move(kernel), bucket);
  co_await done;
}

/// Out of the ring, whose memory the next bucket waits for. What lies between slots is another bucket's.
task::Task<void> Exchange::keep(const Bucket* bucket) {
  tensor::Kernel kernel{
      "keep",
      {0, 2 * bucket->owned.size * size_of(arenas_.sums->type())},
      [this, bucket](tensor::Milestones&) {
        for (Range values : owned_values(*bucket, layout_.arena)) {
          std::size_t from = values.begin - bucket->range.begin + bucket->gradients.begin;
          std::size_t to = values.begin - bucket->owned.begin + bucket->shard;
          ConstView source = arenas_.gradients->bytes({from, values.size});
          std::memcpy(arenas_.sums->bytes({to, values.size}).data(), source.data(), source.size());
        }
      }};
  auto done = run("keep", std::move(kernel), bucket);
  co_await done;
}

void Exchange::open_gates(const Bucket& bucket) {
  adopted_[static_cast<std::size_t>(bucket.id.value())]->set();
  for (int segment : bucket.segments)
    if (Gate& gate = gates_[static_cast<std::size_t>(segment)]; --gate.missing == 0) gate.open->set();
}

task::Task<double> Exchange::clip(const Bucket* bucket) {
  double squared = 0;
  Range sum{sums_of(*bucket), bucket->owned.size};
  tensor::Kernel norm{"gradient norm",
                      {2.0 * static_cast<double>(sum.size), sum.size * size_of(arenas_.sums->type())},
                      [&squared, sums = arenas_.sums, sum](tensor::Milestones&) {
                        squared = optim::squared_norm(*sums, sum);
                      }};
  auto done = run("gradient norm", std::move(norm), bucket);
  co_await done;
  if (scope_->give(bucket->id.value(), bucket->counted ? squared : 0)) {
    const double sum = co_await squared_norm_of_all(scope_->given());
    scope_->release(sum);
  }
  co_return co_await scope_->factor(bucket->name);
}

tensor::Kernel Exchange::update_kernel(const Bucket* bucket, Range range, optim::StepClock clock) {
  const optim::UpdateRange kept{bucket->kept, sums_of(*bucket), bucket->shard};
  return {"update",
          {4.0 * static_cast<double>(range.size), 5 * range.size * size_of(arenas_.master->type())},
          [this, kept, range, clock](tensor::Milestones&) {
            rule_.update(*arenas_.master, *arenas_.sums, kept.of(range), clock);
          }};
}

bool Exchange::is_shared(const Bucket& bucket) const {
  return shares_ && !by_tensor_ && bucket.kept.size >= kSharedElements;
}

/// Gradients are read once then, unless the rule has to see them before.
bool Exchange::is_examined_by_update() const { return at_once_ && !rule_.contributes(clock_); }

/// The update of a rank without others, once its backward pass is over. Bucket by bucket it would wake the
/// team once for each, and nothing hides behind them. What is not finite changes no weight.
task::Task<void> Exchange::update_at_once() {
  auto idle = safe_point_->wait("backward", "all buckets");
  co_await idle;
  tensor::Kernel kernel{.name = "update"};
  std::size_t elements = 0;
  for (const Bucket& bucket : buckets()) {
    co_await examine(&bucket);
    co_await levels_.reduce(transfer(bucket, bucket.gradients), *arenas_.gradients);
    summed_[static_cast<std::size_t>(bucket.id.value())]->set();
    const tensor::Cost cost = update_kernel(&bucket, bucket.kept, clock_).cost;
    kernel.cost.flops += cost.flops;
    kernel.cost.bytes += cost.bytes;
    elements += bucket.kept.size;
  }
  const bool examines = stops_ && is_examined_by_update(), shared = elements >= kSharedElements;
  std::atomic<bool> finite = true;
  kernel.body = [&](tensor::Milestones&) {
    const tensor::Arena& sums = *arenas_.sums;
    for (const Bucket& bucket : buckets()) {
      const optim::UpdateRange kept{bucket.kept, sums_of(bucket), bucket.shard};
      divide_by_lines(shared ? team_ : 1, bucket.kept, [&](Range values) {
        for (Range piece : cached_pieces(values)) {
          const optim::UpdateRange place = kept.of(piece);
          if (!examines || tensor::all_finite(sums.type(), sums.bytes({place.sum, piece.size})))
            rule_.update(*arenas_.master, sums, place, clock_);
          else
            finite = false;
        }
      });
    }
  };
  auto done =
      run("update", std::move(kernel), nullptr, shared ? tensor::Stream::Compute : tensor::Stream::Exchange);
  co_await done;
  if (!finite) {
    const Bucket* bucket = co_await find_not_finite();
    throw not_finite(*bucket);
  }
  for (const Bucket& bucket : buckets()) open_gates(bucket);
}

task::Task<void> Exchange::update_by_team(const Bucket* bucket, optim::StepClock clock) {
  tensor::Kernel kernel = update_kernel(bucket, bucket->kept, clock);
  kernel.body = [this, bucket, clock](tensor::Milestones&) {
    const optim::UpdateRange kept{bucket->kept, sums_of(*bucket), bucket->shard};
    divide_by_lines(team_, bucket->kept, [&](Range values) {
      rule_.update(*arenas_.master, *arenas_.sums, kept.of(values), clock);
    });
  };
  auto done = run("update", std::move(kernel), bucket, tensor::Stream::Compute);
  co_await done;
}

task::Task<void> Exchange::update(const Bucket* bucket, optim::StepClock clock) {
  BucketScheduler::Admission turn = co_await updates_.enter(bucket->id.value(), bucket->name);
  const Range owned = bucket->kept;
  if (by_tensor_) {  // all of each is kept here, as the legality table has it
    co_await update_here(bucket, owned_values(*bucket, layout_.arena), clock);
    co_return;
  }
  if (!is_shared(*bucket)) {
    co_await update_here(bucket, kernel_pieces(owned), clock);
    co_return;
  }
  if (team_ > 1) {
    co_await update_by_team(bucket, clock);
    co_return;
  }
  const std::size_t middle = owned.size / 2 / kLineElements * kLineElements;
  tensor::Kernel half = update_kernel(bucket, {owned.begin, middle}, clock);
  tensor::KernelHandle beside(runtime_.device, runtime_.pending(), tensor::Stream::Compute, std::move(half));
  std::exception_ptr error;
  try {
    auto rest = update_here(bucket, kernel_pieces({owned.begin + middle, owned.size - middle}), clock);
    co_await rest;
  } catch (...) {
    error = std::current_exception();
  }
  Instant waited = runtime_.executor().now();
  co_await beside.finished();
  updating_ += runtime_.executor().now() - waited;
  if (error) std::rethrow_exception(error);
}

task::Task<void> Exchange::update_here(const Bucket* bucket, std::vector<Range> pieces,
                                       optim::StepClock clock) {
  for (Range piece : pieces) {
    tensor::Kernel kernel = update_kernel(bucket, piece, clock);
    auto done = run("update", std::move(kernel), bucket);
    co_await done;
    task::Yield others(runtime_.executor());
    co_await others;
  }
}

task::Task<void> Exchange::spread(const Bucket* bucket) {
  if (!levels_.spreads()) co_return;
  BucketScheduler::Admission turn = co_await back_.enter(bucket->id.value(), bucket->name);
  BucketTransfer back = transfer(*bucket, bucket->range);
  back.precedence = &turn;
  co_await levels_.spread(back, *arenas_.master);
}

task::Task<void> Exchange::adopt(const Bucket* bucket) {
  tensor::Kernel kernel{"cast", {0, bucket->range.size * 6}, [this, bucket](tensor::Milestones&) {
                          cast_range(*arenas_.master, *arenas_.compute, bucket->range);
                        }};
  auto done = run("cast", std::move(kernel), bucket);
  co_await done;
}

task::Task<void> Exchange::run(const char* name, tensor::Kernel kernel, const Bucket* bucket,
                               tensor::Stream stream) {
  const std::int64_t unit = bucket ? bucket->id.value() : -1;
  const Duration took = co_await run_kernel(runtime_, name, unit, std::move(kernel), stream);
  const Instant end = runtime_.executor().now();
  updating_ += std::min(took, end - std::exchange(updated_until_, end));  // the next may have begun before
}

}  // namespace taxon::exchange
