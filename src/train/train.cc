#include "train/train.h"

#include <algorithm>
#include <limits>

#include "data/loader.h"
#include "exchange/choose.h"
#include "exchange/shard.h"
#include "model/cost.h"
#include "task/scope.h"
#include "train/evaluation.h"
#include "train/ledger.h"
#include "train/replicas.h"
#include "train/saving.h"
#include "train/start.h"
#include "train/trace.h"
#include "train/units.h"
#include "train/vote.h"

namespace taxon::train {
namespace {

/// How often something happens that is counted in samples: at every multiple of `period`, 0 for never.
class Every {
 public:
  Every(double period, std::int64_t consumed) : period_(period), done_(due_at(consumed)) {}
  /// True once per period, when `consumed` has passed its end.
  bool due(std::int64_t consumed) {
    std::int64_t now = due_at(consumed);
    return now > done_ && (done_ = now, true);
  }

 private:
  std::int64_t due_at(std::int64_t consumed) const {
    return period_ > 0 ? static_cast<std::int64_t>(static_cast<double>(consumed) / period_ + 1e-9) : 0;
  }
  double period_;
  std::int64_t done_;
};

class Trainer {
 public:
  Trainer(World world, const TrainOptions& options)
      : world_(world),
        options_(options),
        group_(world.runtime, "data", all_ranks(world.runtime)),
        agreement_(group_),
        vote_(group_) {}

  task::Task<Outcome> run();

 private:
  static std::vector<Rank> all_ranks(const comm::Runtime& runtime) {
    std::vector<Rank> ranks;
    for (int r = 0; r < runtime.world_size(); ++r) ranks.emplace_back(r);
    return ranks;
  }
  comm::Runtime& runtime() { return world_.runtime; }
  Instant now() { return world_.runtime.executor().now(); }

  /// A step in flight: from the beginning of its backward pass until its update is over.
  struct Flight {
    std::unique_ptr<exchange::Exchange> exchange;
    std::vector<std::unique_ptr<tensor::Job>> backward;  // of one pass; the exchange may still refer to it
    bool may_update = false;
  };
  Flight& flight_of(std::int64_t step) { return flights_[index_of(step)]; }
  /// A delayed step of before a resume is the first.
  std::size_t index_of(std::int64_t step) const {
    return static_cast<std::size_t>(step - first_step_ + 1) % flights_.size();
  }
  Ranks ranks() { return {group_, agreement_, *levels_, outer_.get(), node_}; }

  task::Task<void> prepare();
  exchange::Layout lay_out() const;
  task::Task<void> share_arenas();
  void go_on_with(const Delayed& delayed);
  void announce();
  task::Task<void> loop();
  task::Task<bool> step(const data::Batch* batch);
  bool asked_to_stop() const { return options_.stop && options_.stop->load(std::memory_order_relaxed); }
  bool out_of_time() const;
  task::Task<int> advance(const model::StepInput* input);
  task::Task<void> settle();
  task::Task<void> drain();
  task::Task<void> wait_for(task::Task<void> exchange);
  void computed(const char* what, Instant begin);
  task::Task<void> tidy(std::exception_ptr error);
  task::Task<void> compute(const data::Batch* batch, optim::StepClock clock, StepReport* report,
                           Vote::Tally* tally);
  task::Task<model::StepOutput> pass(const model::StepInput* input, int begun);
  task::Task<model::StepOutput> pass_in_pieces(const model::StepInput* input, int begun);
  task::Task<model::StepOutput> run_backward(const model::StepInput* input, int from, model::StepCost cost);
  void allow_update(Flight& flight);
  task::Task<void> flush_report();
  void finish_report(const Vote::Tally& tally);
  task::Task<Evaluation> evaluate();
  task::Task<void> compare_weights(std::string what);
  task::Task<void> save();
  task::Task<void> meet(optim::StepClock clock);
  std::int64_t gradient_mean_over(const data::Batch& batch) const;
  optim::StepClock clock_at(std::int64_t step, std::int64_t samples) const {
    return {step, samples, optim::learning_rate(plan_.learning_rate, samples, total_)};
  }
  task::Task<bool> next_step();
  task::Task<void> test_on_the_way();
  bool works() const { return group_.rank() < workers_; }
  /// False where workers run ahead without limit, and only the count of all samples says how far training is.
  bool bounded() const {
    const plan::LevelPlan* served = exchange::served_level(plan_.exchange.levels);
    return !served || served->staleness >= 0;
  }
  // Where ranks don't keep step:
  struct Together {
    bool end = false, evaluate = false, save = false, stop = false;
  };
  void make_ledger();
  task::Task<void> loop_freely();
  task::Task<void> catch_up();
  task::Task<bool> come_together(Together why);
  task::Task<void> tell(Vote::Tally* tally);
  task::Task<void> count_staleness(Outcome* outcome);
  std::uint64_t bytes_sent() const { return world_.runtime.transport.traffic().bytes_sent; }
  /// What this rank sent in this process's part of the run, without what tests and checkpoints needed.
  std::uint64_t bytes_of_training() const { return bytes_sent() - first_bytes_ - replicas_->bytes_shown(); }
  task::Task<Outcome> conclude();

  World world_;
  const TrainOptions& options_;
  comm::Communicator group_;
  Agreement agreement_;
  Vote vote_;
  plan::Plan plan_;
  std::unique_ptr<State> state_;
  int node_ = 0;
  std::unique_ptr<exchange::Levels> levels_;
  std::unique_ptr<exchange::Levels> outer_;  // null: replicas are always equal
  std::unique_ptr<Replicas> replicas_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<Saver> saver_;
  std::vector<Flight> flights_;     // one more than the delay
  std::optional<Delayed> delayed_;  // of before a resume, until the loop goes on with it
  std::unique_ptr<data::Loader> loader_;
  int workers_ = 1;
  bool in_step_ = true;
  std::unique_ptr<Ledger> ledger_;  // null where ranks keep step
  Ledger::Totals seen_;             // as it last said
  Together called_;                 // member 0: for what all were called together
  std::int64_t calls_answered_ = 0;
  std::int64_t told_ = 0;  // samples of the ballot
  std::int64_t total_ = 0;
  std::int64_t steps_ = 0, samples_ = 0;
  optim::StepClock clock_;  // of the last step
  std::int64_t saved_at_ = -1;
  std::uint64_t hash_ = 0;  // of the weights that were compared last
  bool interrupted_ = false;
  std::int64_t first_step_ = 0;
  std::uint64_t first_bytes_ = 0;
  Instant last_end_;
  Duration trained_{0};  // in steps of this process's part of the run
  Duration data_wait_{0};
  double gradient_norm_ = 0;    // of the last update
  Duration busy_{0}, idle_{0};  // of this step: in kernels, and waiting for the exchange
  Duration met_{0};             // in the meeting after the step before

  // The step whose loss is still on its way: it is known with the next vote.
  std::optional<StepReport> pending_;
  std::int64_t pending_size_ = 0;
  Vote::Ballot ballot_;
  double epoch_loss_ = 0;
  std::int64_t epoch_samples_ = 0, loss_epoch_ = -1;
};

task::Task<Outcome> Trainer::run() {
  auto preparing = prepare();
  co_await preparing;
  announce();
  Outcome outcome;
  std::exception_ptr error;
  try {
    auto looping = loop();
    co_await looping;
    auto concluding = conclude();
    outcome = co_await concluding;
  } catch (...) {
    error = std::current_exception();
  }
  auto tidying = tidy(error);
  co_await tidying;
  auto closing = loader_->close();
  co_await closing;
  // The arenas die with this object; the model lives on.
  auto unbinding = on_compute(&runtime(), "unbind", [this] { world_.model.unbind(); });
  co_await unbinding;
  if (error) std::rethrow_exception(error);
  co_return outcome;
}

task::Task<void> Trainer::prepare() {
  auto establish = group_.establish();
  co_await establish;
  auto establish_vote = vote_.establish();
  co_await establish_vote;
  auto finding = find_node(&runtime(), &agreement_, &options_.plan);
  node_ = co_await finding;
  const auto& levels = options_.plan.exchange.levels;
  const exchange::Levels::Shape shape{node_, options_.plan.seed, options_.plan.mesh.servers};
  levels_ = std::make_unique<exchange::Levels>(group_, exchange::summing_levels(levels), shape);
  auto establish_levels = levels_->establish();
  co_await establish_levels;
  if (auto meeting = exchange::meeting_level(levels); !meeting.empty()) {
    outer_ = std::make_unique<exchange::Levels>(group_, meeting, shape);
    auto establish_outer = outer_->establish();
    co_await establish_outer;
  }
  auto beginning_task = begin(world_, &options_, ranks());
  Beginning beginning = co_await beginning_task;
  plan_ = beginning.plan;
  steps_ = first_step_ = beginning.steps;
  samples_ = beginning.samples;
  saved_at_ = beginning.resumed ? samples_ : -1;
  state_ = std::make_unique<State>(runtime().transport, plan_, lay_out(), world_.model.spec());
  auto sharing = share_arenas();
  co_await sharing;
  auto restoring = restore(world_, ranks(), &beginning, state_.get());
  co_await restoring;
  const data::Dataset& train = *world_.datasets.train;
  total_ = plan::total_samples(plan_, group_.size(), train.size());
  workers_ = plan::workers(plan_, group_.size());
  replicas_ = std::make_unique<Replicas>(runtime(), ranks(), state_.get(), &plan_, total_);
  auto same = compare_weights("initial parameters");
  co_await same;
  auto parting = replicas_->begin(&beginning);
  co_await parting;
  evaluator_ = std::make_unique<Evaluator>(world_, plan_, group_, agreement_);
  saver_ = std::make_unique<Saver>(
      world_, ranks(), Saver::Setup{&options_, &plan_, state_.get(), replicas_.get(), evaluator_.get()});
  for (std::size_t f = 0; f < state_->flights(); ++f) {
    flights_.emplace_back();
    flights_.back().exchange = std::make_unique<exchange::Exchange>(
        runtime(),
        exchange::Exchange::Setup{&state_->layout(), static_cast<int>(world_.model.spec().segments.size()),
                                  state_->arenas(f), levels_.get(), &state_->rule(), &plan_,
                                  static_cast<std::uint16_t>(f)});
  }
  delayed_ = beginning.delayed;
  runtime().waits().name_units(unit_names(plan_, first_step_));
  for (exchange::Levels* served : {levels_.get(), outer_.get()})
    if (served) served->set_turn(steps_);
  in_step_ = exchange::workers_keep_step(plan_.exchange.levels);
  if (!in_step_) make_ledger();
  data::Sampler sampler(plan_.seed, train.size(), plan::global_batch(plan_, group_.size()));
  clock_ = clock_at(std::max<std::int64_t>(0, steps_ - 1), samples_);
  loader_ = std::make_unique<data::Loader>(runtime(), train, sampler, plan_.data.prefetch, samples_,
                                           bounded() ? total_ : std::numeric_limits<std::int64_t>::max() / 2,
                                           workers_);
  first_bytes_ = bytes_sent();
}

exchange::Layout Trainer::lay_out() const {
  const model::ModelSpec& spec = world_.model.spec();
  auto layout = exchange::lay_out(trainable(spec), plan_.resolved.buckets, plan_.precision.master);
  for (std::size_t b = 0; b < layout.buckets.size(); ++b)
    layout.buckets[b].rows = exchange::rows_of(plan_.resolved.buckets[b], plan_.exchange.levels);
  exchange::own(layout, *levels_);
  if (plan_.exchange.gradients == "ring") {
    if (!spec.divisible)
      throw Error(ErrorKind::Usage,
                  "exchange.gradients: ring needs a model whose backward pass can be taken "
                  "in pieces, and " +
                      spec.name + " has only one; use whole");
    exchange::lay_out_ring(layout, static_cast<int>(spec.segments.size()), plan_.exchange.in_flight);
  }
  return layout;
}

/// Collectives in mapped memory need the members' gradients, and their weights if owners spread them; and
/// what replicas hand in where they meet.
task::Task<void> Trainer::share_arenas() {
  if (group_.size() == 1) co_return;
  if (outer_) {
    auto share = outer_->share(state_->handed_in().region());
    co_await share;
  }
  for (std::size_t f = 0; f < state_->flights(); ++f) {
    auto share = levels_->share(state_->gradients(f).region());
    co_await share;
  }
  if (!levels_->spreads()) co_return;
  auto share = levels_->share(state_->master().region());
  co_await share;
}

/// Puts the last step's sums, which restore() left in the first arena, where that step would have them.
void Trainer::go_on_with(const Delayed& delayed) {
  Flight& flight = flights_.front();
  flight.exchange->begin(delayed.clock);
  flight.exchange->go_on_with_sums();
  if (plan_.exchange.delay == 0) allow_update(flight);
}

void Trainer::announce() {
  RunInfo info;
  info.plan = plan_;
  info.parameters = world_.model.spec().parameter_count();
  info.train_size = world_.datasets.train->size();
  info.test_size = world_.datasets.test->size();
  info.total_samples = total_;
  info.start_step = steps_;
  info.start_samples = samples_;
  info.arenas = state_->bytes();
  world_.observer.started(info);
}

task::Task<void> Trainer::loop() {
  // Here and no earlier: what this starts is unwound only if the loop fails.
  if (delayed_) go_on_with(*delayed_);
  last_end_ = now();
  if (ledger_) {
    auto freely = loop_freely();
    co_await freely;
    co_return;
  }
  double epoch = static_cast<double>(world_.datasets.train->size());
  Every evaluation(plan_.evaluation.every_epochs * epoch, samples_);
  Every checkpoint(plan_.checkpoint.every_epochs * epoch, samples_);
  while (samples_ < total_) {
    levels_->begin_turn();
    auto stepping = next_step();
    bool stop = co_await stepping;
    bool last = samples_ >= total_;
    if (stop && !last) {
      // Somebody was asked to, or else rank 0's time is up.
      auto asking = agreement_.sum({asked_to_stop() ? 1.0 : 0.0});
      const auto asked = co_await asking;
      interrupted_ = asked[0] > 0;
      break;
    }
    if (evaluation.due(samples_) && !last) {
      auto testing = test_on_the_way();
      co_await testing;
    }
    bool counted = plan_.checkpoint.every_steps > 0 && steps_ % plan_.checkpoint.every_steps == 0;
    if ((checkpoint.due(samples_) || counted) && !last) {
      auto settling = settle();
      co_await settling;
      const Instant begin = now();
      auto saving = save();
      co_await saving;
      last_end_ += now() - begin;
    }
  }
  // An interrupted run saves what a delay has not updated yet.
  auto ending = interrupted_ ? settle() : drain();
  co_await ending;
  auto flushing = flush_report();
  co_await flushing;
}

task::Task<bool> Trainer::next_step() {
  Instant waited_from = now();
  auto next = loader_->next();
  data::Batch batch = co_await next;
  data_wait_ = now() - waited_from;
  auto stepping = step(&batch);
  co_return co_await stepping;
}

task::Task<void> Trainer::test_on_the_way() {
  auto settling = settle();
  co_await settling;
  if (in_step_ || works()) {
    auto flushing = flush_report();
    co_await flushing;
  }
  const Instant begin = now();
  auto evaluating = evaluate();
  Evaluation seen = co_await evaluating;
  world_.observer.evaluated(seen);
  last_end_ += now() - begin;
}

/// Member 0 calls all together for evaluations, checkpoints and the end, where workers' own counts don't say
/// when.
void Trainer::make_ledger() {
  const auto epoch = static_cast<double>(world_.datasets.train->size());
  auto evaluation = std::make_shared<Every>(plan_.evaluation.every_epochs * epoch, samples_);
  auto checkpoint = std::make_shared<Every>(plan_.checkpoint.every_epochs * epoch, samples_);
  auto calls = [this, evaluation, checkpoint](const Ledger::Totals& totals) {
    if (bounded()) return false;
    const auto samples = static_cast<std::int64_t>(totals.samples);
    called_ = {samples >= total_, evaluation->due(samples), checkpoint->due(samples), false};
    return called_.end || called_.evaluate || called_.save;
  };
  ledger_ = std::make_unique<Ledger>(group_, workers_, samples_, std::move(calls));
  seen_.samples = static_cast<double>(samples_);
  ledger_->open();
}

/// Workers step as their servers let them; who only serves waits where all come together.
task::Task<void> Trainer::loop_freely() {
  const auto epoch = static_cast<double>(world_.datasets.train->size());
  Every evaluation(plan_.evaluation.every_epochs * epoch, samples_);
  Every checkpoint(plan_.checkpoint.every_epochs * epoch, samples_);
  bool ended = bounded() && samples_ >= total_;
  while (!ended) {
    Together why;
    if (works()) {
      auto skipping = catch_up();
      co_await skipping;
      if (samples_ < total_ || !bounded()) {
        auto stepping = next_step();
        co_await stepping;
      }
      why.stop = seen_.stop;
      if (bounded())
        why = {samples_ >= total_, evaluation.due(samples_), checkpoint.due(samples_), seen_.stop};
      else if (seen_.calls == calls_answered_ && !why.stop)
        continue;
      if (!(why.end || why.evaluate || why.save || why.stop || !bounded())) continue;
    }
    auto coming = come_together(why);
    ended = co_await coming;
  }
  if (!works()) co_return;
  auto flushing = flush_report();
  co_await flushing;
}

/// Leaves out the steps that faster workers did without this one.
task::Task<void> Trainer::catch_up() {
  exchange::Levels& levels = *levels_;
  levels.begin_turn();
  while (steps_ < levels.turn() && (!bounded() || samples_ < total_)) {
    auto next = loader_->next();
    data::Batch skipped = co_await next;
    ++steps_;
    samples_ += skipped.global_size;
  }
}

/// Every rank comes here equally often. True when training is over.
task::Task<bool> Trainer::come_together(Together why) {
  auto settling = settle();
  co_await settling;
  if (replicas_->meeting()) {
    auto arriving = replicas_->meeting()->arrive();
    co_await arriving;
  }
  auto pausing = outer_ ? outer_->pause() : levels_->pause();
  co_await pausing;
  const bool first = group_.rank() == 0;
  if (first && !bounded()) why = {called_.end, called_.evaluate, called_.save, why.stop};
  std::vector<double> flags = {why.end ? 1.0 : 0, why.evaluate ? 1.0 : 0, why.save ? 1.0 : 0,
                               why.stop ? 1.0 : 0};
  flags.push_back(asked_to_stop() ? 1 : 0);
  flags.push_back(first ? static_cast<double>(ledger_->totals().calls) : 0);
  flags.push_back(first ? (bounded() ? static_cast<double>(samples_) : ledger_->totals().samples) : 0);
  auto summing = agreement_.sum(std::move(flags));
  flags = co_await summing;
  calls_answered_ = static_cast<std::int64_t>(flags[5]);
  if (!bounded() || !works()) samples_ = static_cast<std::int64_t>(flags[6]);
  if (first) ledger_->came_together();
  if (flags[0] > 0) co_return true;
  if (flags[3] > 0) {
    interrupted_ = flags[4] > 0;  // otherwise rank 0's time is up
    co_return true;
  }
  if (flags[1] > 0) {
    auto testing = test_on_the_way();
    co_await testing;
  }
  if (flags[2] > 0) {
    auto saving = save();
    co_await saving;
  }
  co_return false;
}

/// What a vote says, or a ledger.
task::Task<void> Trainer::tell(Vote::Tally* tally) {
  if (in_step_) {
    auto casting = vote_.cast(ballot_, tally);
    co_await casting;
    co_return;
  }
  const Ledger::Totals before = seen_;
  auto reporting = ledger_->report(ballot_, std::exchange(told_, 0), &seen_);
  co_await reporting;
  *tally = {seen_.stop, seen_.loss_sum - before.loss_sum, seen_.correct - before.correct, 0,
            seen_.samples - before.samples};
}

task::Task<void> Trainer::count_staleness(Outcome* outcome) {
  constexpr std::size_t kMost = 256;  // later ones are counted with these
  std::vector<double> counts(kMost + 1);
  if (const exchange::Service* service = replicas_->service()) {
    const auto& own = service->staleness();
    for (std::size_t late = 0; late < own.size(); ++late)
      counts[std::min(late, kMost - 1)] += static_cast<double>(own[late]);
    counts[kMost] = static_cast<double>(service->dropped());
  }
  auto summing = agreement_.sum(std::move(counts));
  counts = co_await summing;
  outcome->dropped = counts[kMost];
  counts.pop_back();
  while (counts.size() > 1 && counts.back() == 0) counts.pop_back();
  outcome->staleness = std::move(counts);
}

task::Task<bool> Trainer::step(const data::Batch* batch) {
  const optim::StepClock clock = clock_ = clock_at(steps_, samples_);
  StepReport report;
  report.step = steps_ + 1;
  report.epoch = batch->epoch;
  report.samples = samples_ + batch->global_size;
  report.rate = clock.rate;
  report.data_wait = data_wait_;
  Vote::Tally tally;
  ballot_.stop = asked_to_stop() || out_of_time();
  auto computing = compute(batch, clock, &report, &tally);
  co_await computing;
  finish_report(tally);
  report.gradient_norm =
      gradient_norm_;  // of this step if it is settled; else settle() sees to it, unless it is delayed
  report.step_time = now() - last_end_;
  trained_ += report.step_time;
  last_end_ = report.end = now();
  steps_ = report.step;
  samples_ = report.samples;
  pending_ = report;
  pending_size_ = batch->global_size;
  if (!bounded()) samples_ = std::max(samples_, static_cast<std::int64_t>(seen_.samples));
  auto meeting = meet(clock);
  co_await meeting;
  if (!replicas_->apart() && plan_.report.hash_steps > 0 && steps_ % plan_.report.hash_steps == 0) {
    auto settling = settle();
    co_await settling;
    auto same = compare_weights("parameters");
    co_await same;
  }
  co_return tally.stop;
}

/// Replicas that train apart meet, if this step is one after which they do.
task::Task<void> Trainer::meet(optim::StepClock clock) {
  exchange::Meeting* meeting = replicas_->meeting();
  if (!meeting || !meeting->due_after(steps_)) co_return;
  auto settling = settle();
  co_await settling;
  Instant begin = now();
  auto after = meeting->after(clock);
  co_await after;
  met_ += now() - begin;
}

/// Samples that a gradient is the mean over: those of the ranks that sum their gradients.
std::int64_t Trainer::gradient_mean_over(const data::Batch& batch) const {
  if (!replicas_->meeting()) return batch.global_size;
  std::vector<Rank> members{world_.runtime.rank()};
  if (levels_->size() > 0) members = levels_->group(levels_->size() - 1).members();
  std::int64_t samples = 0;
  for (Rank member : members)
    samples += static_cast<std::int64_t>(part({0, static_cast<std::size_t>(batch.global_size)},
                                              static_cast<std::size_t>(workers_),
                                              static_cast<std::size_t>(member.value()))
                                             .size);
  return std::max<std::int64_t>(1, samples);
}

bool Trainer::out_of_time() const {
  return plan_.length.seconds > 0 && group_.rank() == 0 && to_seconds(trained_) >= plan_.length.seconds;
}

/// Forward and backward on the compute lane, beside them the exchange of earlier steps until it is settled,
/// the vote, and then this step's exchange, which goes on when this ends unless the plan says otherwise.
task::Task<void> Trainer::compute(const data::Batch* batch, optim::StepClock clock, StepReport* report,
                                  Vote::Tally* tally) {
  busy_ = idle_ = Duration(0);
  model::StepInput input{batch->inputs, batch->labels, gradient_mean_over(*batch), plan_.batch.micro_batches,
                         index_of(steps_)};
  auto advancing = advance(&input);
  int begun = co_await advancing;
  auto settling = settle();
  co_await settling;
  task::Scope beside(runtime().waits());
  beside.spawn(tell(tally));
  Flight& flight = flight_of(steps_);
  flight.backward.clear();
  flight.may_update = false;
  levels_->weigh(batch->size(), input.global_size);
  flight.exchange->begin(clock);
  model::StepOutput output;
  std::exception_ptr error;
  try {
    auto passing = plan_.exchange.gradients == "ring" ? pass_in_pieces(&input, begun) : pass(&input, begun);
    output = co_await passing;
    // No job reads older weights from here on.
    if (Flight& due = flight_of(steps_ - plan_.exchange.delay); due.exchange->underway()) allow_update(due);
  } catch (...) {
    error = std::current_exception();
  }
  try {
    co_await beside.join();
  } catch (...) {
    if (!error) error = std::current_exception();
  }
  if (error) std::rethrow_exception(error);
  ballot_ = {false, output.loss_sum, output.correct};
  told_ = batch->size();
  if (plan_.resolved.overlap == "backward") {
    auto all = settle();
    co_await all;
  }
  report->compute = busy_;
  report->exposed = idle_ + std::exchange(met_, Duration(0));
}

task::Task<model::StepOutput> Trainer::pass(const model::StepInput* input, int begun) {
  auto cost = model::step_cost(world_.model.spec(), *input, begun, state_->binding());
  auto running = run_backward(input, 0, std::move(cost));
  co_return co_await running;
}

/// Segment by segment, each when there is room for its gradients.
task::Task<model::StepOutput> Trainer::pass_in_pieces(const model::StepInput* input, int begun) {
  const model::ModelSpec& spec = world_.model.spec();
  model::StepOutput output;
  for (int from = static_cast<int>(spec.segments.size()) - 1; from >= 0; --from) {
    auto waiting = wait_for(flight_of(steps_).exchange->room(from));
    co_await waiting;
    model::StepCost cost{model::piece_cost(spec, *input, begun, from), {}};
    auto running = run_backward(input, from, std::move(cost));
    output = co_await running;
  }
  co_return output;
}

task::Task<model::StepOutput> Trainer::run_backward(const model::StepInput* input, int from,
                                                    model::StepCost cost) {
  Flight& flight = flight_of(steps_);
  model::StepOutput output;
  tensor::Kernel kernel{"forward and backward", cost.cost,
                        [this, input, from, &output](tensor::Marks& marks) {
                          output = world_.model.forward_backward(*input, from, marks);
                        }};
  kernel.marks = static_cast<int>(state_->layout().buckets.size());
  kernel.mark_shares = std::move(cost.bucket_shares);
  Instant begin = now();
  flight.backward.push_back(std::make_unique<tensor::Job>(runtime().device, runtime().waits(),
                                                          tensor::Lane::Compute, std::move(kernel)));
  tensor::Job& job = *flight.backward.back();
  flight.exchange->contribute(job, from);
  auto end = job.finished();
  co_await end;
  computed("forward and backward", begin);
  co_return output;
}

void Trainer::allow_update(Flight& flight) {
  flight.exchange->safe_point();
  flight.may_update = true;
}

/// The forward pass of the first micro-batch, as far as it must wait for the exchange that is due. What needs
/// no more waiting is left to the backward pass's kernel. Returns the segment that it left off at.
task::Task<int> Trainer::advance(const model::StepInput* input) {
  const model::ModelSpec& spec = world_.model.spec();
  const int segments = static_cast<int>(spec.segments.size());
  exchange::Exchange& due = *flight_of(steps_).exchange;
  int next = 0;
  while (next < segments) {
    auto waiting = wait_for(due.ready(next));
    co_await waiting;
    int until = next + 1;
    while (until < segments && due.is_ready(until)) ++until;
    if (until == segments) break;
    Instant begin = now();
    auto cost = model::forward_cost(spec, model::micro_batch_samples(*input), next, until);
    auto forward = on_compute(
        &runtime(), "forward", [this, input, until] { world_.model.forward(*input, until); }, cost);
    co_await forward;
    computed("forward", begin);
    next = until;
  }
  co_return next;
}

/// Until the exchanges of all steps are over whose updates are due: the weights are then the same on every
/// rank and stay.
task::Task<void> Trainer::settle() {
  for (std::int64_t step = steps_ - static_cast<std::int64_t>(flights_.size()); step < steps_; ++step) {
    Flight& flight = flight_of(step);
    if (!flight.exchange->underway() || !flight.may_update) continue;
    auto waiting = wait_for(flight.exchange->finish());
    co_await waiting;
    gradient_norm_ = flight.exchange->gradient_norm();
    if (pending_ && pending_->step == flight.exchange->step_clock().step + 1)
      pending_->gradient_norm = gradient_norm_;
  }
}

/// Until all updates are done, those too that a delay would let wait for the next step.
task::Task<void> Trainer::drain() {
  for (std::int64_t step = steps_ - static_cast<std::int64_t>(flights_.size()); step < steps_; ++step) {
    Flight& flight = flight_of(step);
    if (flight.exchange->underway() && !flight.may_update) allow_update(flight);
    auto settling = settle();
    co_await settling;
  }
}

/// Waits for the exchange and accounts for it: updates that run meanwhile are compute, the rest is exposed.
task::Task<void> Trainer::wait_for(task::Task<void> exchange) {
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

void Trainer::computed(const char* what, Instant begin) {
  busy_ += now() - begin;
  runtime().journal.add({"compute", what, -1, 0, begin, now()});
}

/// Ends what a failure left in flight.
task::Task<void> Trainer::tidy(std::exception_ptr error) {
  if (!error) co_return;
  for (Flight& flight : flights_) {
    auto abandoning = flight.exchange->abandon(error);
    co_await abandoning;
  }
  auto abandoning = replicas_->abandon(error);
  co_await abandoning;
  if (!ledger_) co_return;
  auto closing = ledger_->abandon(error);
  co_await closing;
}

/// A last vote on its own, for the loss of the last step.
task::Task<void> Trainer::flush_report() {
  if (!pending_) co_return;
  Vote::Tally tally;
  ballot_.stop = false;
  auto telling = tell(&tally);
  co_await telling;
  finish_report(tally);
  ballot_ = {};
}

void Trainer::finish_report(const Vote::Tally& tally) {
  if (!pending_) return;
  const double size = in_step_ ? static_cast<double>(pending_size_) : std::max(1.0, tally.samples);
  pending_->loss = tally.loss_sum / size;
  pending_->accuracy = tally.correct / size;
  if (pending_->epoch != loss_epoch_) {
    loss_epoch_ = pending_->epoch;
    epoch_loss_ = 0;
    epoch_samples_ = 0;
  }
  epoch_loss_ += tally.loss_sum;
  epoch_samples_ += static_cast<std::int64_t>(size);
  world_.observer.stepped(*pending_);
  pending_.reset();
}

task::Task<Evaluation> Trainer::evaluate() {
  auto settling = settle();
  co_await settling;
  const auto sent = static_cast<double>(bytes_of_training());
  auto showing = replicas_->show();
  co_await showing;
  auto evaluating = evaluator_->evaluate({.step = steps_, .samples = samples_, .bytes_sent = sent});
  Evaluation seen = co_await evaluating;
  auto hiding = replicas_->hide();
  co_await hiding;
  co_return seen;
}

task::Task<void> Trainer::save() {
  if (saved_at_ == samples_) co_return;
  Saver::ToCome to_come;
  if (Flight& last = flight_of(steps_ - 1); last.exchange->underway() && !last.may_update)
    to_come = {last.exchange.get(), &state_->gradients(index_of(steps_ - 1))};
  const std::uint64_t before = bytes_of_training();
  auto saving = saver_->save(steps_, samples_, to_come);
  co_await saving;
  first_bytes_ += bytes_of_training() - before;
  saved_at_ = samples_;
}

/// Hashes the master weights and makes sure that all ranks have the same.
task::Task<void> Trainer::compare_weights(std::string what) {
  std::uint64_t hash = 0;
  tensor::Cost cost{0, state_->master().bytes().size()};
  auto hashing = on_compute(
      &runtime(), "hash", [&] { hash = state_->hash(); }, cost);
  co_await hashing;
  auto same = agreement_.require_equal(hash, std::move(what));
  co_await same;
  hash_ = hash;
}

task::Task<Outcome> Trainer::conclude() {
  auto saving = save();
  co_await saving;
  if (replicas_->apart()) {  // from here on all have what stands for the model
    if (exchange::Meeting* meeting = replicas_->meeting();
        meeting && !exchange::served_level(plan_.exchange.levels)) {
      auto last = meeting->conclude(clock_);
      co_await last;
    }
    auto closing = replicas_->close_service();
    co_await closing;
    auto showing = replicas_->show();
    co_await showing;
  }
  Outcome outcome;
  outcome.end = interrupted_ ? Outcome::End::Interrupted : Outcome::End::Complete;
  auto same = compare_weights("final parameters");
  co_await same;
  outcome.parameter_hash = hash_;
  const auto sent = static_cast<double>(bytes_of_training());
  std::vector<double> sums = {sent, works() ? static_cast<double>(steps_ - first_step_) : 0};
  if (!interrupted_) {
    auto evaluating = evaluator_->evaluate({.step = steps_, .samples = samples_, .bytes_sent = sent});
    outcome.test = co_await evaluating;
    world_.observer.evaluated(outcome.test);
  }
  auto summing = agreement_.sum(std::move(sums));
  sums = co_await summing;
  const double steps = std::max(1.0, sums[1] / workers_);
  outcome.bytes_sent_per_step = sums[0] / steps / group_.size();
  if (exchange::served_level(plan_.exchange.levels)) {
    auto counting = count_staleness(&outcome);
    co_await counting;
  }
  outcome.train_loss = epoch_samples_ > 0 ? epoch_loss_ / static_cast<double>(epoch_samples_) : 0;
  outcome.steps = steps_;
  outcome.samples = samples_;
  outcome.epochs = static_cast<double>(samples_) / static_cast<double>(world_.datasets.train->size());
  outcome.copies_per_step = world_.model.copies().copies;
  outcome.copy_bytes_per_step = world_.model.copies().bytes;
  if (!interrupted_ && !options_.out.empty()) {
    auto exporting = saver_->export_model();
    co_await exporting;
  }
  if (plan_.report.trace) {
    auto gathering = agreement_.gather(pack_spans(runtime().journal.all(), options_.clock_offset));
    outcome.traces = co_await gathering;
  }
  auto draining = drain();
  co_await draining;
  if (ledger_) {
    auto closing = ledger_->close();
    co_await closing;
  }
  co_return outcome;
}

}  // namespace

task::Task<Outcome> train(World world, TrainOptions options) {
  Trainer trainer(world, options);
  auto running = trainer.run();
  co_return co_await running;
}

}  // namespace taxon::train
