#include "exchange/exchange.h"

#include <string>

namespace taxon::exchange {
namespace {

// Updates are cut so that the communication thread polls at least every few hundred microseconds.
constexpr std::size_t kUpdateElements = 256 * 1024;
// Half an update on the other lane must be worth waking its thread.
constexpr std::size_t kHalvedElements = 128 * 1024;
constexpr std::size_t kLineElements = 64;

void cast_range(const tensor::Arena& from, const tensor::Arena& to, Range range) {
  dispatch(from.type(), [&](auto source) {
    using From = decltype(source);
    dispatch(to.type(), [&](auto target) {
      using To = decltype(target);
      auto in = from.values<From>(range);
      auto out = to.values<To>(range);
      if constexpr (std::is_same_v<From, To>)
        std::copy(in.begin(), in.end(), out.begin());
      else
        for (std::size_t i = 0; i < in.size(); ++i) out[i] = To(static_cast<float>(in[i]));
    });
  });
}

/// Keys of the buckets in the lane. The next forward pass reads the first segments first.
std::vector<int> lane_keys(const std::vector<Bucket>& buckets, const std::string& order) {
  std::vector<int> keys(buckets.size(), 0);
  if (order == "priority")
    for (std::size_t b = 0; b < buckets.size(); ++b) keys[b] = buckets[b].segments.front();
  return keys;
}

}  // namespace

Exchange::Exchange(comm::Runtime& runtime, std::vector<Bucket> buckets, int segments, Arenas arenas,
                   std::unique_ptr<Topology> topology, optim::Rule& rule, const plan::Plan& plan)
    : runtime_(runtime),
      buckets_(std::move(buckets)),
      arenas_(arenas),
      topology_(std::move(topology)),
      rule_(rule),
      order_(lane_keys(buckets_, plan.exchange.order)),
      lane_(runtime, plan.exchange.in_flight),
      updates_(runtime, 1),
      scope_(plan.optimiser.clip_norm > 0 ? std::make_unique<StepScope>(runtime, plan.optimiser.clip_norm)
                                          : nullptr),
      halves_(plan.resolved.overlap == "backward" && arenas.master == arenas.compute),
      gates_(static_cast<std::size_t>(segments)),
      children_(runtime.waits()) {}

void Exchange::begin(tensor::Job& backward, optim::StepClock clock) {
  TAXON_CHECK(children_.live() == 0, children_.live(), " buckets of the last step are still in flight");
  lane_.begin(order_);
  updates_.begin(order_);
  if (scope_) scope_->begin(static_cast<int>(buckets_.size()));
  safe_point_ = std::make_unique<task::Event>(runtime_.executor(), runtime_.waits());
  for (Gate& gate : gates_) gate = {0, std::make_unique<task::Event>(runtime_.executor(), runtime_.waits())};
  for (const Bucket& bucket : buckets_)
    for (int segment : bucket.segments) ++gates_[static_cast<std::size_t>(segment)].missing;
  for (Gate& gate : gates_)
    if (gate.missing == 0) gate.open->set();
  children_.spawn(open_safe_point(&backward));
  for (const Bucket& bucket : buckets_) children_.spawn(reconcile(&bucket, &backward, clock));
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

task::Task<void> Exchange::finish() { co_await children_.join(); }

task::Task<void> Exchange::abandon(std::exception_ptr why) {
  if (!runtime_.waits().cancelled()) runtime_.waits().cancel(why);
  try {
    co_await children_.join();
  } catch (...) {
  }
}

/// Every line is one axis of the taxonomy.
task::Task<void> Exchange::reconcile(const Bucket* bucket, tensor::Job* backward, optim::StepClock clock) {
  auto complete = backward->at(bucket->id.value(), bucket->name);
  co_await complete;
  auto enter = lane_.enter(bucket->id.value(),
                           bucket->name);  // overlap: by priority, bounded in flight
  Range owned = topology_->owned(bucket->range);
  {
    Lane::Turn turn = co_await enter;
    auto reduce = topology_->reduce(*bucket, *arenas_.gradients);  // communication: contributions meet
    co_await reduce;
  }
  if (scope_) {  // optimisation: scalars over all buckets
    auto agree = clip(bucket, owned);
    clock.gradient_scale = co_await agree;
  }
  bool aliased = arenas_.master == arenas_.compute;
  if (aliased) {  // scheduling: weights never change under a running job
    auto safe = safe_point_->wait("backward", bucket->name);
    co_await safe;
  }
  {
    auto first = updates_.enter(bucket->id.value(), bucket->name);
    Lane::Turn turn = co_await first;
    auto updated = update(bucket, owned, clock);  // optimisation: the owner updates
    co_await updated;
  }
  auto spread = topology_->spread(*bucket, *arenas_.master);  // communication: values travel back
  co_await spread;
  if (!aliased) {
    auto safe = safe_point_->wait("backward", bucket->name);
    co_await safe;
    auto cast = adopt(bucket);
    co_await cast;
  }
  adopted(*bucket);
}

void Exchange::adopted(const Bucket& bucket) {
  for (int segment : bucket.segments)
    if (Gate& gate = gates_[static_cast<std::size_t>(segment)]; --gate.missing == 0) gate.open->set();
}

task::Task<void> Exchange::open_safe_point(tensor::Job* backward) {
  auto end = backward->finished();
  co_await end;
  safe_point_->set();
}

task::Task<double> Exchange::clip(const Bucket* bucket, Range owned) {
  double squared = 0;
  tensor::Kernel norm{
      "gradient norm",
      {2.0 * static_cast<double>(owned.size), owned.size * size_of(arenas_.gradients->type())},
      [&squared, gradients = arenas_.gradients, owned](tensor::Marks&) {
        squared = optim::squared_norm(*gradients, owned);
      }};
  auto done = run("gradient norm", std::move(norm), bucket);
  co_await done;
  auto agree = scope_->agree(bucket->id.value(), squared, bucket->name);
  co_return co_await agree;
}

tensor::Kernel Exchange::update_kernel(Range range, optim::StepClock clock) {
  return {"update",
          {4.0 * static_cast<double>(range.size), 5 * range.size * size_of(arenas_.master->type())},
          [this, range, clock](tensor::Marks&) {
            rule_.update(*arenas_.master, *arenas_.gradients, range, clock);
          }};
}

task::Task<void> Exchange::update(const Bucket* bucket, Range owned, optim::StepClock clock) {
  if (!halves_ || owned.size < kHalvedElements) {
    auto all = update_here(bucket, owned, clock);
    co_await all;
    co_return;
  }
  const std::size_t middle = owned.size / 2 / kLineElements * kLineElements;
  tensor::Kernel first = update_kernel({owned.begin, middle}, clock);
  tensor::Job beside(runtime_.device, runtime_.waits(), tensor::Lane::Compute, std::move(first));
  std::exception_ptr error;
  try {
    auto rest = update_here(bucket, {owned.begin + middle, owned.size - middle}, clock);
    co_await rest;
  } catch (...) {
    error = std::current_exception();
  }
  Instant waited = runtime_.executor().now();
  auto end = beside.finished();
  co_await end;
  updating_ += runtime_.executor().now() - waited;
  if (error) std::rethrow_exception(error);
}

task::Task<void> Exchange::update_here(const Bucket* bucket, Range range, optim::StepClock clock) {
  for (std::size_t begin = range.begin; begin < range.end(); begin += kUpdateElements) {
    tensor::Kernel kernel = update_kernel({begin, std::min(kUpdateElements, range.end() - begin)}, clock);
    auto done = run("update", std::move(kernel), bucket);
    co_await done;
    task::Yield others(runtime_.executor());
    co_await others;
  }
}

task::Task<void> Exchange::adopt(const Bucket* bucket) {
  tensor::Kernel kernel{"cast", {0, bucket->range.size * 6}, [this, bucket](tensor::Marks&) {
                          cast_range(*arenas_.master, *arenas_.compute, bucket->range);
                        }};
  auto done = run("cast", std::move(kernel), bucket);
  co_await done;
}

task::Task<void> Exchange::run(const char* name, tensor::Kernel kernel, const Bucket* bucket) {
  comm::Span span{"exchange", name, bucket->id.value(), kernel.cost.bytes, runtime_.executor().now(), {}};
  auto done = tensor::run(runtime_.device, runtime_.waits(), tensor::Lane::Exchange, std::move(kernel));
  co_await done;
  span.end = runtime_.executor().now();
  updating_ += span.end - span.begin;
  runtime_.journal.add(span);
}

}  // namespace taxon::exchange
