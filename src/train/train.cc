#include "train/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "comm/paths.h"
#include "data/loader.h"
#include "exchange/choose.h"
#include "exchange/factors.h"
#include "exchange/shard.h"
#include "plan/asynchrony.h"
#include "train/chronicler.h"
#include "train/coding.h"
#include "train/evaluation.h"
#include "train/pace.h"
#include "train/replicas.h"
#include "train/reports.h"
#include "train/roster.h"
#include "train/saving.h"
#include "train/start.h"
#include "train/stepper.h"
#include "train/trace.h"
#include "train/units.h"

namespace taxon::train {
namespace {

class Trainer {
 public:
  Trainer(World world, const TrainOptions& options)
      : world_(world),
        options_(options),
        group_(world.runtime, "data", all_ranks(world.runtime)),
        agreement_(group_),
        reports_(world.observer),
        chronicler_(world.runtime.rank(), options) {
    if (!losses() || !losses()->spares_any()) return;
    all_ = std::make_unique<comm::Communicator>(world.runtime, "all", all_ranks(world.runtime));
    roster_ = std::make_unique<Roster>(*all_, group_, *options.losses);
  }

  task::Task<Outcome> run();

 private:
  static std::vector<Rank> all_ranks(const comm::Runtime& runtime) {
    std::vector<Rank> ranks;
    for (int r = 0; r < runtime.world_size(); ++r) ranks.emplace_back(r);
    return ranks;
  }
  comm::Runtime& runtime() { return world_.runtime; }
  Instant now() { return world_.runtime.executor().now(); }

  Ranks ranks() { return {group_, lasting(), agreement_, *levels_, outer_.get(), node_}; }
  /// Of every rank that ever was.
  comm::Communicator& lasting() { return all_ ? *all_ : group_; }
  void lost(const Ledger::Loss& loss);
  /// Of workers that the others can do without.
  comm::Losses* losses() { return options_.follow ? nullptr : options_.losses; }

  task::Task<void> prepare();
  exchange::Layout lay_out() const;
  task::Task<void> share_arenas();
  void announce();
  void announce_paths();
  task::Task<void> loop();
  task::Task<void> step(const data::Batch* batch);
  bool asked_to_stop() const;
  bool out_of_time() const;
  task::Task<void> tidy(std::exception_ptr error);
  task::Task<void> flush_report() { return reports_.flush(pace_.get(), stepper_->gradient_norm()); }
  task::Task<void> evaluate();
  task::Task<void> compare_weights(std::string what);
  task::Task<void> save();
  task::Task<void> meet(optim::StepClock clock);
  std::int64_t gradient_mean_over(const data::Batch& batch) const;
  std::int64_t samples_of(const data::Batch& batch, const std::vector<Rank>& members) const;
  /// Those whose gradients become one contribution.
  std::vector<Rank> contributors() const {
    return levels_->size() > 1 ? levels_->group(0).members() : std::vector<Rank>{world_.runtime.rank()};
  }
  optim::StepClock clock_at(std::int64_t step, std::int64_t samples) const {
    return {step, samples, optim::learning_rate(plan_.learning_rate, samples, total_)};
  }
  task::Task<void> next_step();
  task::Task<void> catch_up();
  task::Task<void> pause();
  task::Task<bool> come_together(Together mine);
  bool works() const { return world_.runtime.rank().value() < workers_; }
  std::uint64_t bytes_sent() const { return world_.runtime.transport.traffic().bytes_sent; }
  /// What this rank sent in this process's part of the run, without what tests and checkpoints needed.
  std::uint64_t bytes_of_training() const { return bytes_sent() - first_bytes_ - replicas_->bytes_shown(); }
  task::Task<Outcome> conclude();

  World world_;
  const TrainOptions& options_;
  comm::Communicator group_;  // of the ranks that are there
  Agreement agreement_;
  std::unique_ptr<comm::Communicator> all_;  // null, as the roster: nobody can be done without
  std::unique_ptr<Roster> roster_;
  int lost_ = 0;  // workers; at rank 0
  plan::Plan plan_;
  std::unique_ptr<State> state_;
  int node_ = 0;
  std::unique_ptr<exchange::Levels> levels_;
  std::unique_ptr<exchange::Levels> outer_;  // null: replicas are always equal
  std::unique_ptr<Replicas> replicas_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<Saver> saver_;
  std::unique_ptr<Stepper> stepper_;
  std::optional<Delayed> delayed_;  // of before a resume, until the loop goes on with it
  std::unique_ptr<Pace> pace_;
  std::unique_ptr<data::Loader> loader_;
  Reports reports_;
  Chronicler chronicler_;
  std::unique_ptr<Coding> coding_;
  int workers_ = 1;
  std::int64_t total_ = 0;
  std::int64_t steps_ = 0, samples_ = 0;
  optim::StepClock clock_;  // of the last step
  std::int64_t saved_at_ = -1;
  std::uint64_t hash_ = 0;  // of the weights that were compared last
  bool interrupted_ = false;
  std::int64_t first_step_ = 0, first_samples_ = 0;
  std::uint64_t first_bytes_ = 0;
  Instant last_end_;
  Duration trained_{0};  // in steps of this process's part of the run
  Duration data_wait_{0};
  Duration met_{0};  // in the meeting after the step before
};

task::Task<Outcome> Trainer::run() {
  Outcome outcome;
  std::exception_ptr error;
  try {
    auto preparing = prepare();
    co_await preparing;
    announce();
    auto looping = loop();
    co_await looping;
    auto concluding = conclude();
    outcome = co_await concluding;
  } catch (...) {
    error = std::current_exception();
  }
  auto tidying = tidy(error);
  co_await tidying;
  if (error) std::rethrow_exception(error);
  co_return outcome;
}

task::Task<void> Trainer::prepare() {
  auto establish = group_.establish();
  co_await establish;
  if (all_) {
    auto establish_all = all_->establish();
    co_await establish_all;
  }
  auto finding = find_node(&runtime(), &agreement_, &options_.plan);
  node_ = co_await finding;
  const auto& levels = options_.plan.exchange.levels;
  const exchange::Levels::Shape shape{node_, options_.plan.seed, options_.plan.mesh.servers, options_.own,
                                      chronicler_.chronicle()};
  levels_ = std::make_unique<exchange::Levels>(lasting(), exchange::summing_levels(levels), shape);
  auto establish_levels = levels_->establish();
  co_await establish_levels;
  if (auto meeting = exchange::meeting_level(levels); !meeting.empty()) {
    outer_ = std::make_unique<exchange::Levels>(lasting(), meeting, shape);
    auto establish_outer = outer_->establish();
    co_await establish_outer;
  }
  auto beginning_task = begin(world_, &options_, ranks());
  Beginning beginning = co_await beginning_task;
  plan_ = beginning.plan;
  steps_ = first_step_ = beginning.steps;
  samples_ = beginning.samples;
  saved_at_ = beginning.resumed ? samples_ : -1;
  state_ =
      std::make_unique<State>(runtime().transport, plan_, lay_out(), world_.model.spec(), options_.own.rules);
  auto sharing = share_arenas();
  co_await sharing;
  auto restoring = restore(world_, ranks(), &beginning, state_.get());
  co_await restoring;
  const data::Dataset& train = *world_.datasets.train;
  total_ = plan::total_samples(plan_, group_.size(), train.size());
  workers_ = plan::workers(plan_, group_.size());
  replicas_ = std::make_unique<Replicas>(
      runtime(), ranks(),
      Replicas::Setup{state_.get(), &plan_, total_, chronicler_.chronicle(), losses(), options_.own});
  auto same = compare_weights("initial parameters");
  co_await same;
  first_bytes_ = bytes_sent();  // before workers that are faster may be served
  auto parting = replicas_->begin(&beginning);
  co_await parting;
  evaluator_ = std::make_unique<Evaluator>(world_, plan_, group_, agreement_);
  saver_ = std::make_unique<Saver>(
      world_, ranks(), Saver::Setup{&options_, &plan_, state_.get(), replicas_.get(), evaluator_.get()});
  stepper_ =
      std::make_unique<Stepper>(world_, Stepper::Setup{&plan_, state_.get(), levels_.get(), first_step_});
  coding_ = std::make_unique<Coding>(plan_.exchange.levels, levels_.get(), outer_.get());
  delayed_ = beginning.delayed;
  runtime().waits().name_units(unit_names(plan_, first_step_));
  for (exchange::Levels* served : {levels_.get(), outer_.get()})
    if (served) served->set_turn(steps_);
  const std::int64_t batch = plan::global_batch(plan_, group_.size());
  const Position here{steps_, samples_};
  pace_ = make_pace(plan_, {lasting(), agreement_, workers_, batch,
                            Agenda(plan_, static_cast<double>(train.size()), total_, here), here, losses(),
                            [this](const Ledger::Loss& loss) { lost(loss); }, options_.own.topologies,
                            levels_->size() > 1 ? &levels_->group(0) : nullptr, chronicler_.chronicle()});
  auto establish_pace = pace_->establish();
  co_await establish_pace;
  data::Sampler sampler(plan_.seed, train.size(), batch);
  if (steps_ > 0) {  // of the last step, which began before its samples
    const std::int64_t in_epoch = (samples_ - 1) % train.size();
    clock_ = clock_at(steps_ - 1, samples_ - 1 - in_epoch % batch);
  } else {
    clock_ = clock_at(0, 0);
  }
  loader_ = std::make_unique<data::Loader>(
      runtime(), train, sampler, plan_.data.prefetch, samples_,
      pace_->counts_own() ? total_ : std::numeric_limits<std::int64_t>::max() / 2, workers_);
  first_samples_ = samples_;
}

exchange::Layout Trainer::lay_out() const {
  const model::ModelSpec& spec = world_.model.spec();
  auto layout = exchange::lay_out(trainable(spec), plan_.resolved.buckets, plan_.precision.master);
  for (std::size_t b = 0; b < layout.buckets.size(); ++b)
    layout.buckets[b].rows =
        exchange::rows_of(plan_.resolved.buckets[b], plan_.exchange.levels, options_.own.topologies);
  if (levels_->size() > 0)
    exchange::lay_out_factors(layout, plan_.resolved.buckets, levels_->group(0).size(),
                              levels_->group(0).rank());
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
  if (const std::string hosts = plan::describe(plan_.emulation); !hosts.empty() && group_.rank() == 0)
    world_.observer.noticed("emulated hosts: " + hosts);
  if (const std::string factors = exchange::describe_factors(plan_); !factors.empty() && group_.rank() == 0)
    world_.observer.noticed(factors);
  if (auto notice = plan::momentum_notice(plan_, group_.size()); notice && group_.rank() == 0)
    world_.observer.noticed(*notice);
  if (group_.rank() == 0) announce_paths();
}

/// Rank 0's ways to the others, where they differ, and what servers make of them.
void Trainer::announce_paths() {
  const net::Transport& transport = runtime().transport;
  if (const std::string paths = comm::describe_paths(transport, group_.members());
      !paths.empty() && paths != transport.path(group_.global(1)).name)
    world_.observer.noticed("paths: " + paths);
  for (const exchange::Levels* levels : {levels_.get(), outer_.get()})
    for (std::size_t l = 0; levels != nullptr && l < levels->size(); ++l)
      if (const std::string paths = levels->paths(l); !paths.empty()) world_.observer.noticed(paths);
}

task::Task<void> Trainer::loop() {
  // Here and no earlier: what this starts is unwound only if the loop fails.
  if (delayed_) stepper_->go_on_with(*delayed_);
  if (roster_) roster_->dismiss();
  last_end_ = now();
  bool ended = pace_->counts_own() && samples_ >= total_;
  while (!ended) {
    if (pace_->steps()) {
      auto stepping = next_step();
      co_await stepping;
    }
    const std::optional<Together> due = pace_->due({steps_, samples_});
    if (!due) continue;
    auto coming = come_together(*due);
    ended = co_await coming;
  }
  // An interrupted run saves what a delay has not updated yet.
  auto ending = interrupted_ ? stepper_->settle() : stepper_->drain();
  co_await ending;
  auto flushing = flush_report();
  co_await flushing;
}

/// The next step, if the others' have not all been done meanwhile.
task::Task<void> Trainer::next_step() {
  auto skipping = catch_up();
  co_await skipping;
  if (pace_->counts_own() && samples_ >= total_) co_return;
  Instant waited_from = now();
  auto next = loader_->next();
  data::Batch batch = co_await next;
  data_wait_ = now() - waited_from;
  auto stepping = step(&batch);
  co_await stepping;
}

/// Leaves out the steps that faster workers did without this one.
task::Task<void> Trainer::catch_up() {
  levels_->begin_turn();
  while (steps_ < levels_->turn() && (!pace_->counts_own() || samples_ < total_)) {
    auto next = loader_->next();
    data::Batch skipped = co_await next;
    ++steps_;
    samples_ += skipped.global_size;
  }
}

/// Servers go on without this rank until it contributes again.
task::Task<void> Trainer::pause() {
  auto settling = stepper_->settle();
  co_await settling;
  if (replicas_->meeting()) {
    auto arriving = replicas_->meeting()->arrive();
    co_await arriving;
  }
  auto pausing = replicas_->pause();
  co_await pausing;
}

/// Every rank comes here equally often. True when training is over.
task::Task<bool> Trainer::come_together(Together mine) {
  Position position{steps_, samples_};
  if (pace_->pauses()) {
    auto pausing = pause();
    co_await pausing;
  }
  if (roster_) {
    auto calling = roster_->call();
    co_await calling;
  }
  auto agreeing = pace_->agree(mine, asked_to_stop(), &position);
  const Together what = co_await agreeing;
  samples_ = position.samples;
  interrupted_ = what.stop && what.interrupted;
  if (what.end || what.stop) co_return true;
  auto settling = stepper_->settle();
  co_await settling;
  const Instant begin = now();
  if (what.evaluate) {
    auto testing = evaluate();
    co_await testing;
  }
  if (what.save) {
    auto saving = save();
    co_await saving;
  }
  last_end_ += now() - begin;
  if (roster_) roster_->dismiss();
  co_return false;
}

/// At rank 0, once for each.
void Trainer::lost(const Ledger::Loss& loss) {
  std::string why;
  try {
    std::rethrow_exception(loss.why);
  } catch (const std::exception& error) {
    why = error.what();
  }
  const std::int64_t share = (total_ - first_samples_) / workers_;
  const std::string rest = pace_->counts_own() ? fmt::format("about {} samples of its share are left out",
                                                             std::max<std::int64_t>(0, share - loss.samples))
                                               : "the others train its share";
  world_.observer.noticed(fmt::format(
      "{}. It had reported {} steps with {} samples; what it was computing is lost, and {}. {} workers go on",
      why, loss.steps, loss.samples, rest, workers_ - ++lost_));
}

task::Task<void> Trainer::step(const data::Batch* batch) {
  const optim::StepClock clock = clock_ = clock_at(steps_, samples_);
  StepReport report;
  report.step = steps_ + 1;
  report.epoch = batch->epoch;
  report.samples = samples_ + batch->global_size;
  report.rate = clock.rate;
  report.data_wait = data_wait_;
  Vote::Tally tally;
  const Vote::Ballot ballot{.stop = asked_to_stop() || out_of_time()};
  const model::StepInput input{batch->inputs, batch->labels, gradient_mean_over(*batch),
                               plan_.batch.micro_batches, stepper_->binding_of(steps_)};
  auto running = stepper_->run(&input, samples_of(*batch, contributors()), clock,
                               reports_.tell(pace_.get(), ballot, &tally));
  const Stepper::Done done = co_await running;
  reports_.finish(tally, done.gradient_norm_before);
  report.compute = done.busy;
  report.exposed = done.idle + std::exchange(met_, Duration(0));
  report.step_time = now() - last_end_;
  coding_->report(report);
  trained_ += report.step_time;
  last_end_ = report.end = now();
  steps_ = report.step;
  samples_ = pace_->samples(report.samples);
  reports_.stepped({report, batch->global_size, batch->size(), done.output.loss_sum, done.output.correct});
  auto meeting = meet(clock);
  co_await meeting;
  if (!replicas_->apart() && plan_.report.hash_steps > 0 && steps_ % plan_.report.hash_steps == 0) {
    auto settling = stepper_->settle();
    co_await settling;
    auto same = compare_weights("parameters");
    co_await same;
  }
}

/// Replicas that train apart meet, if this step is one after which they do.
task::Task<void> Trainer::meet(optim::StepClock clock) {
  exchange::Meeting* meeting = replicas_->meeting();
  if (!meeting || !meeting->due_after(steps_)) co_return;
  auto settling = stepper_->settle();
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
  return std::max<std::int64_t>(1, samples_of(batch, members));
}

std::int64_t Trainer::samples_of(const data::Batch& batch, const std::vector<Rank>& members) const {
  std::int64_t samples = 0;
  for (Rank member : members)
    samples += static_cast<std::int64_t>(part({0, static_cast<std::size_t>(batch.global_size)},
                                              static_cast<std::size_t>(workers_),
                                              static_cast<std::size_t>(member.value()))
                                             .size);
  return samples;
}

bool Trainer::asked_to_stop() const {
  const bool asked = options_.stop && options_.stop->load(std::memory_order_relaxed);
  if (asked && options_.follow) throw Error(ErrorKind::Interrupted, "stopped while it followed an order");
  return asked;
}

bool Trainer::out_of_time() const {
  return plan_.length.seconds > 0 && !options_.follow && group_.rank() == 0 &&
         to_seconds(trained_) >= plan_.length.seconds;
}

/// Ends what a failure, of the preparations too, left in flight; and gives back what is not this object's.
task::Task<void> Trainer::tidy(std::exception_ptr error) {
  if (error && stepper_) {
    auto abandoning = stepper_->abandon(error);
    co_await abandoning;
  }
  if (error && replicas_) {
    auto abandoning = replicas_->abandon(error);
    co_await abandoning;
  }
  if (error && pace_) {
    auto abandoning = pace_->abandon(error);
    co_await abandoning;
  }
  if (loader_) {
    auto closing = loader_->close();
    co_await closing;
  }
  // The arenas die with this object; the model lives on.
  auto unbinding = on_compute(&runtime(), "unbind", [this] { world_.model.unbind(); });
  co_await unbinding;
}

/// On the way. REQUIRES: settled.
task::Task<void> Trainer::evaluate() {
  auto flushing = flush_report();
  co_await flushing;
  const auto sent = static_cast<double>(bytes_of_training());
  auto showing = replicas_->show();
  co_await showing;
  auto evaluating = evaluator_->evaluate({.step = steps_, .samples = samples_, .bytes_sent = sent});
  const Evaluation seen = co_await evaluating;
  auto hiding = replicas_->hide();
  co_await hiding;
  world_.observer.evaluated(seen);
}

task::Task<void> Trainer::save() {
  if (saved_at_ == samples_) co_return;
  const std::uint64_t before = bytes_of_training();
  auto saving = saver_->save(steps_, samples_, stepper_->to_come());
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
        meeting && !exchange::served_level(plan_.exchange.levels) && pace_->counts_own()) {
      auto last = meeting->conclude(clock_);
      co_await last;
    }
    auto closing = replicas_->close();
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
  coding_->give(sums);
  if (!interrupted_) {
    auto evaluating = evaluator_->evaluate({.step = steps_, .samples = samples_, .bytes_sent = sent});
    outcome.test = co_await evaluating;
    world_.observer.evaluated(outcome.test);
  }
  auto summing = agreement_.sum(std::move(sums));
  sums = co_await summing;
  const double steps = std::max(1.0, sums[1] / workers_);
  outcome.bytes_sent_per_step = sums[0] / steps / group_.size();
  outcome.codecs = coding_->reports_of(std::span<const double>(sums).subspan(2), steps * group_.size());
  if (exchange::served_level(plan_.exchange.levels)) {
    auto counting = replicas_->count_staleness();
    const Replicas::Staleness staleness = co_await counting;
    outcome.staleness = staleness.counts;
    outcome.dropped = staleness.dropped;
  }
  outcome.train_loss = reports_.epoch_loss();
  if (roster_) outcome.lost = roster_->missing();
  outcome.steps = steps_;
  outcome.samples = samples_;
  outcome.epochs = static_cast<double>(samples_) / static_cast<double>(world_.datasets.train->size());
  outcome.copies_per_step = world_.model.copies().copies;
  outcome.copy_bytes_per_step = world_.model.copies().bytes;
  outcome.crossings = world_.model.crossings();
  if (!interrupted_ && !options_.out.empty()) {
    auto exporting = saver_->export_model();
    co_await exporting;
  }
  if (auto notice = chronicler_.compare(hash_)) world_.observer.noticed(*notice);
  if (options_.record_order) {
    auto gathering = chronicler_.gather(&group_, &agreement_, lasting().size(), hash_);
    outcome.order = co_await gathering;
  }
  if (plan_.report.trace) {
    auto gathering = agreement_.gather(pack_spans(runtime().journal.all(), options_.clock_offset));
    outcome.traces = co_await gathering;
  }
  auto draining = stepper_->drain();
  co_await draining;
  auto closing = pace_->close();
  co_await closing;
  co_return outcome;
}

}  // namespace

task::Task<Outcome> train(World world, TrainOptions options) {
  Trainer trainer(world, options);
  auto running = trainer.run();
  co_return co_await running;
}

}  // namespace taxon::train
