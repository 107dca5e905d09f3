#include "train/stepper.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "task/scope.h"
#include "tensor/finite.h"

namespace taxon::train {

Stepper::Stepper(TrainContext world, const Setup& setup)
    : world_(world),
      setup_(setup),
      flights_(setup.state->flights()),
      next_(setup.first_step),
      on_divergence_(setup.plan->on_divergence) {
  for (std::size_t f = 0; f < flights_.size(); ++f)
    flights_[f].exchange = std::make_unique<exchange::Exchange>(
        runtime(), exchange::Exchange::Setup{
                       &setup_.state->layout(), static_cast<int>(world_.model.spec().segments.size()),
                       setup_.state->arenas(f), setup_.levels, &setup_.state->rule(), setup_.plan,
                       static_cast<std::uint16_t>(f), setup_.summands, setup_.replica,
                       setup_.state->updates_by_tensor(), world_.model.team()});
}

void Stepper::go_on_with(const Delayed& delayed) {
  Flight& flight = flights_.front();
  flight.exchange->begin(delayed.clock);
  flight.exchange->go_on_with_sums();
  if (setup_.plan->exchange.delay == 0) allow_update(flight);
}

Saver::ToCome Stepper::to_come() {
  Flight& last = flight_of(next_ - 1);
  if (!last.exchange->underway() || last.may_update) return {};
  return {last.exchange.get(), &setup_.state->gradients(index_of(next_ - 1))};
}

task::Task<Stepper::Done> Stepper::run(const model::StepInput* input, std::int64_t samples,
                                       optim::StepClock clock, task::Task<void> beside,
                                       const Divergence* agreed) {
  const bool may_skip = on_divergence_ == plan::OnDivergence::Skip;
  busy_ = idle_ = Duration(0);
  next_ = clock.step;
  Done done;
  double begun = 0;
  if (!setup_.staged) {
    begun = co_await advance(input);
    co_await turn(input, samples, clock, &done);
  }
  task::Scope companions(runtime().pending());
  if (!may_skip) companions.spawn(std::move(beside));
  std::exception_ptr error;
  try {
    auto passing = setup_.staged ? pass_in_stages(input, samples, clock, &done)
                   : setup_.plan->exchange.gradients == plan::GradientMemory::Ring
                       ? pass_in_pieces(input, begun)
                       : pass(input, begun);
    done.output = co_await passing;
    co_await learn_divergence(clock, done.output.loss_sum);
    if (may_skip) {
      companions.spawn(std::move(beside));
      const Instant passed = now();
      co_await companions.join();
      idle_ += now() - passed;
      done.skipped = agreed->any();
      if (done.skipped) {
        co_await require_finite_weights(clock);
      } else {
        begin_exchange(*input, samples, clock);
        flight_of(clock.step).contribute();
      }
    }
    // No job reads older weights from here on.
    if (Flight& due = flight_of(clock.step - setup_.plan->exchange.delay); due.exchange->underway())
      allow_update(due);
  } catch (...) {
    error = std::current_exception();
  }
  const Instant passed = now();
  try {
    co_await companions.join();
  } catch (...) {
    if (!error) error = std::current_exception();
  }
  idle_ += now() - passed;  // for ranks that are behind
  if (error) std::rethrow_exception(error);
  if (setup_.plan->resolved.overlap == plan::ResolvedOverlap::Backward) {
    co_await settle();
  }
  done.busy = busy_;
  done.idle = idle_;
  co_return done;
}

/// The step before ends, and the exchange of this one begins as far as it need not know the gradients.
task::Task<void> Stepper::turn(const model::StepInput* input, std::int64_t samples, optim::StepClock clock,
                               Done* done) {
  co_await settle();
  done->gradient_norm_before = gradient_norm_;
  Flight& flight = flight_of(clock.step);
  flight.backward.clear();
  flight.contributes = on_divergence_ != plan::OnDivergence::Skip;
  flight.may_update = false;
  if (flight.contributes && !(setup_.staged && setup_.staged->updates() > 1))
    begin_exchange(*input, samples, clock);
  next_ = clock.step + 1;
}

void Stepper::begin_exchange(const model::StepInput& input, std::int64_t samples, optim::StepClock clock) {
  setup_.levels->weigh(samples, input.global_size);
  flight_of(clock.step).exchange->begin(clock);
}

/// A run that stops has its gradients looked at by the exchange, bucket by bucket.
task::Task<void> Stepper::learn_divergence(optim::StepClock clock, double loss_sum) {
  divergence_ = {};
  if (on_divergence_ == plan::OnDivergence::Ignore) co_return;
  const auto rank = static_cast<double>(runtime().rank().value());
  if (!std::isfinite(loss_sum)) divergence_ = {.ranks = 1, .rank = rank, .losses = 1};
  if (on_divergence_ == plan::OnDivergence::Stop) co_return;
  const exchange::Bucket* bucket = co_await flight_of(clock.step).exchange->find_not_finite();
  if (bucket) divergence_ = {.ranks = 1, .rank = rank, .bucket = static_cast<double>(bucket->id.value())};
}

/// To skip steps helps nobody whose weights are lost.
task::Task<void> Stepper::require_finite_weights(optim::StepClock clock) {
  bool finite = true;
  const tensor::Arena& weights = setup_.state->master();
  auto checking =
      on_compute(&runtime(), "finite", [&] { finite = tensor::all_finite(weights.type(), weights.bytes()); },
                 {0, weights.bytes().size()});
  co_await checking;
  if (!finite)
    throw exchange::diverged(clock.step + 1, fmt::format("a weight of rank {}", runtime().rank().value()),
                             {runtime().rank(), "skip", {}});
}

task::Task<model::StepOutput> Stepper::pass(const model::StepInput* input, double begun) {
  auto cost = model::step_cost(world_.model.spec(), *input, begun, setup_.state->binding());
  co_return co_await run_backward(input, 0, std::move(cost));
}

/// Piece by piece, micro-batch by micro-batch, in the order of the schedule.
task::Task<model::StepOutput> Stepper::pass_in_stages(const model::StepInput* input, std::int64_t samples,
                                                      optim::StepClock clock, Done* done) {
  Flight& flight = flight_of(clock.step);
  const StagedPass::Before before{
      [this, &flight](int segment) { return wait_for(flight.exchange->ready(segment)); },
      [&] { return turn(input, samples, clock, done); }};
  const StagedPass::Done passed = co_await setup_.staged->run(input, &flight, clock, &before);
  busy_ += passed.busy;
  idle_ += passed.idle;
  co_return passed.output;
}

/// Segment by segment, each when there is room for its gradients.
task::Task<model::StepOutput> Stepper::pass_in_pieces(const model::StepInput* input, double begun) {
  const model::ModelSpec& spec = world_.model.spec();
  model::StepOutput output;
  for (int from = static_cast<int>(spec.segments.size()) - 1; from >= 0; --from) {
    co_await wait_for(flight_of(next_ - 1).exchange->room(from));
    model::StepCost cost{model::piece_cost(spec, *input, begun, from), {}};
    output = co_await run_backward(input, from, std::move(cost));
  }
  co_return output;
}

task::Task<model::StepOutput> Stepper::run_backward(const model::StepInput* input, int from,
                                                    model::StepCost cost) {
  Flight& flight = flight_of(next_ - 1);
  model::StepOutput output;
  tensor::Kernel kernel{"forward and backward", cost.cost,
                        [this, input, from, &output](tensor::Milestones& marks) {
                          output = world_.model.forward_backward(*input, from, marks);
                        }};
  if (flight.exchange->awaits_marks()) {
    kernel.marks = static_cast<int>(setup_.state->layout().buckets.size());
    kernel.mark_shares = std::move(cost.bucket_shares);
  }
  Instant begin = now();
  tensor::KernelHandle& job =
      flight.add(std::make_unique<tensor::KernelHandle>(runtime().device, runtime().pending(),
                                                        tensor::Stream::Compute, std::move(kernel)),
                 from);
  co_await job.finished();
  computed("forward and backward", begin);
  co_return output;
}

void Stepper::allow_update(Flight& flight) {
  flight.exchange->safe_point();
  flight.may_update = true;
}

/// The forward pass of the first micro-batch, as far as it must wait for the exchange that is due. What needs
/// no more waiting is left to the backward pass's kernel. Returns where it left off.
task::Task<double> Stepper::advance(const model::StepInput* input) {
  const int segments = static_cast<int>(world_.model.spec().segments.size());
  exchange::Exchange& due = *flight_of(next_).exchange;
  int next = 0;
  double begun = 0;
  while (next < segments) {
    begun = co_await advance_by_rows(input, next);
    co_await wait_for(due.ready(next));
    int until = next + 1;
    while (until < segments && due.is_ready(until)) ++until;
    if (until == segments) break;
    auto going =
        go_forward(input, begun, until, [this, input, until] { world_.model.forward(*input, until); });
    co_await going;
    next = until;
    begun = next;
  }
  co_return begun;
}

/// What can be made of a segment of which buckets are missing: of the first rows of its weight, as they come.
/// The last ones are left to what comes after it.
task::Task<double> Stepper::advance_by_rows(const model::StepInput* input, int segment) {
  const model::ModelSpec& spec = world_.model.spec();
  const int weight = spec.segments[static_cast<std::size_t>(segment)].weight_by_rows;
  exchange::Exchange& due = *flight_of(next_).exchange;
  double begun = segment;
  if (weight < 0 || due.is_ready(segment)) co_return begun;
  const model::Binding binding = setup_.state->binding();
  const auto slot = static_cast<std::size_t>(
      std::find(binding.parameters.begin(), binding.parameters.end(), weight) - binding.parameters.begin());
  const std::vector<model::RowBlock> blocks = binding.row_blocks(slot);
  const Range whole = binding.layout->slots()[slot].range;
  for (const exchange::Bucket& bucket : due.buckets()) {
    const bool of_others = bucket.range.end() <= whole.begin || bucket.range.begin >= whole.end();
    if (of_others && std::count(bucket.segments.begin(), bucket.segments.end(), segment) > 0)
      co_await wait_for(due.adopted(static_cast<std::size_t>(bucket.id.value())));
  }
  const std::int64_t rows = blocks.back().end;
  std::size_t next = 0;  // bucket
  for (const model::RowBlock& block : blocks) {
    for (; next <= block.bucket; ++next)
      if (const Range part = binding.buckets[next].weights; part.end() > whole.begin)
        co_await wait_for(due.adopted(next));
    if (block.end == rows || due.is_ready(segment)) break;
    const double until = segment + static_cast<double>(block.end) / static_cast<double>(rows);
    auto going = go_forward(input, begun, until, [this, input, segment, end = block.end] {
      world_.model.forward_rows(*input, segment, end);
    });
    co_await going;
    begun = until;
  }
  co_return begun;
}

task::Task<void> Stepper::go_forward(const model::StepInput* input, double from, double until,
                                     UniqueFunction<void()> body) {
  const Instant begin = now();
  const double samples = model::micro_batch_samples(*input);
  auto forward = on_compute(&runtime(), "forward", std::move(body),
                            model::forward_cost(world_.model.spec(), samples, from, until));
  co_await forward;
  computed("forward", begin);
}

task::Task<void> Stepper::settle() {
  for (std::int64_t step = next_ - static_cast<std::int64_t>(flights_.size()); step < next_; ++step) {
    Flight& flight = flight_of(step);
    if (!flight.exchange->underway() || !flight.may_update) continue;
    co_await wait_for(flight.exchange->finish());
    gradient_norm_ = flight.exchange->gradient_norm();
  }
  // Not before: the exchange says which bucket it is, if a gradient is not finite either.
  if (on_divergence_ == plan::OnDivergence::Stop && divergence_.any())
    throw exchange::diverged(next_, fmt::format("the loss of rank {}", runtime().rank().value()),
                             {runtime().rank(), "forward", {}});
}

task::Task<void> Stepper::drain() {
  for (std::int64_t step = next_ - static_cast<std::int64_t>(flights_.size()); step < next_; ++step) {
    Flight& flight = flight_of(step);
    if (flight.exchange->underway() && !flight.may_update) allow_update(flight);
    co_await settle();
  }
}

/// Waits for the exchange and accounts for it: updates that run meanwhile are compute, the rest is exposed.
task::Task<void> Stepper::wait_for(task::Task<void> exchange) {
  auto updating = [this] {
    Duration all{0};
    for (const Flight& flight : flights_) all += flight.exchange->updating();
    return all;
  };
  Instant begin = now();
  Duration updated = updating();
  co_await exchange;
  updated = updating() - updated;
  busy_ += updated;
  idle_ += std::max(Duration(0), now() - begin - updated);
}

void Stepper::computed(const char* what, Instant begin) {
  busy_ += now() - begin;
  runtime().recorder.add({"compute", what, -1, 0, begin, now()});
}

task::Task<void> Stepper::abandon(std::exception_ptr why) {
  for (Flight& flight : flights_) {
    co_await flight.exchange->abandon(why);
  }
}

}  // namespace taxon::train
