#include "train/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "data/loader.h"
#include "tensor/finite.h"
#include "train/bytes.h"
#include "train/replay/event_recorder.h"
#include "train/report/codec_stats.h"
#include "train/report/evaluation.h"
#include "train/report/step_reporter.h"
#include "train/report/step_timer.h"
#include "train/report/trace.h"
#include "train/start/announce.h"
#include "train/start/divided.h"
#include "train/start/layout.h"
#include "train/start/memory_check.h"
#include "train/start/process_groups.h"
#include "train/start/resume.h"
#include "train/start/summands.h"
#include "train/state/arena_bytes.h"
#include "train/state/replicas.h"
#include "train/state/saving.h"
#include "train/state/shard_transfer.h"
#include "train/stepper.h"
#include "train/sync/sample_weights.h"
#include "train/sync/step_coordinator.h"
#include "train/units.h"

namespace taxon::train {
namespace {

/// FNV-1a of the parts' hashes.
std::uint64_t hash_of(const std::vector<std::vector<std::byte>>& parts) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const auto& part : parts)
    for (std::byte byte : part) hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3;
  return hash;
}

class Trainer {
 public:
  Trainer(TrainContext world, const TrainOptions& options)
      : world_(world),
        options_(options),
        chronicler_(world.runtime.rank(), options),
        groups_(world.runtime, options, chronicler_.log()),
        reports_(world.observer, world.model.spec().task.metrics, world.datasets.train->shape().targets()),
        meter_(world.runtime) {}

  task::Task<Outcome> run();

 private:
  comm::Runtime& runtime() { return world_.runtime; }
  RankGroups ranks() { return groups_.ranks(); }
  int present() { return ranks().group.size(); }
  void lost(const ProgressTracker::Loss& loss);
  task::Task<void> part();
  void tell_of(const ProgressTracker::Loss& loss);
  data::FaultLog* told_faults() const;
  void tell(const std::optional<std::string>& news);
  std::string name_of_bucket(const Divergence& divergence) const;
  void tell_of_skipped(std::int64_t step, const Divergence& divergence);
  void require_finite(const Evaluation& evaluation) const;

  task::Task<void> prepare();
  task::Task<void> require_memory_for(const exchange::Layout* layout, int versions);
  std::unique_ptr<StepCoordinator> make_pace();
  RunInfo info() const;
  task::Task<void> loop();
  task::Task<void> step(const data::Batch* batch);
  bool asked_to_stop() const;
  bool out_of_time() const;
  task::Task<void> tidy(std::exception_ptr error);
  task::Task<void> flush_report() { return reports_.flush(coordinator_.get(), stepper_->gradient_norm()); }
  task::Task<void> evaluate();
  task::Task<void> compare_data();
  task::Task<void> write(Outcome* outcome);
  task::Task<void> compare_weights(std::string what);
  task::Task<void> save();
  task::Task<void> meet(optim::StepClock clock);
  optim::StepClock clock_at(std::int64_t step, std::int64_t samples) const {
    return {step, samples, rate_->at(samples)};
  }
  task::Task<void> next_step();
  task::Task<void> catch_up();
  task::Task<void> pause();
  task::Task<bool> come_together(SyncActions mine);
  /// Where there is nothing to test with, whoever has the model does that.
  bool tests() const { return world_.datasets.test && world_.datasets.test->size() > 0; }
  /// One rank of every worker.
  bool stands_for_worker() {
    const plan::MeshPosition& position = ranks().position;
    return position.data < workers_ && position.pipeline == 0 && position.tensor == 0;
  }
  const model::ModelSpec& whole() const { return divided_ ? divided_->whole : world_.model.spec(); }
  /// What this rank sent in this process's part of the run, without what tests and checkpoints needed.
  std::uint64_t bytes_of_training() const { return meter_.bytes() - replicas_->consensus_bytes(); }
  task::Task<Outcome> conclude();

  TrainContext world_;
  const TrainOptions& options_;
  EventRecorder chronicler_;
  plan::Plan plan_;
  std::unique_ptr<Divided> divided_;  // null: every worker has a whole model
  std::unique_ptr<State> state_;
  ProcessGroups groups_;
  std::optional<SummandGroups> summands_;
  std::unique_ptr<exchange::Gathering> gathering_;  // null: every rank has all parameters of its part
  std::unique_ptr<StagedPass> staged_;              // null: as divided_
  std::optional<SampleWeights> shares_;
  std::unique_ptr<Replicas> replicas_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<Saver> saver_;
  std::unique_ptr<Stepper> stepper_;
  std::optional<Delayed> delayed_;  // of before a resume, until the loop goes on with it
  std::unique_ptr<StepCoordinator> coordinator_;
  std::unique_ptr<data::Loader> loader_;
  StepReporter reports_;
  StepTimer meter_;
  std::unique_ptr<CodecStats> coding_;
  int workers_ = 1;
  std::vector<Rank> lost_;                     // of them, that were told of; at rank 0
  std::vector<ProgressTracker::Loss> untold_;  // until it is known that the others do go on
  std::int64_t skipped_ = 0;
  std::int64_t total_ = 0;
  std::optional<optim::LearningRate> rate_;
  std::int64_t steps_ = 0, samples_ = 0;
  optim::StepClock clock_;  // of the last step
  std::int64_t saved_at_ = -1;
  std::uint64_t hash_ = 0;  // of the weights that were compared last
  bool interrupted_ = false;
  std::int64_t first_step_ = 0, first_samples_ = 0;
};

task::Task<Outcome> Trainer::run() {
  Outcome outcome;
  std::exception_ptr error;
  try {
    co_await prepare();
    announce(world_, ranks(), info(), options_.own);
    if (divided_ && runtime().rank() == Rank(0))
      for (const std::string& notice : describe(*divided_, plan_)) world_.observer.noticed(notice);
    co_await loop();
    outcome = co_await conclude();
  } catch (...) {
    error = std::current_exception();
  }
  co_await tidy(error);
  if (error) std::rethrow_exception(error);
  co_return outcome;
}

task::Task<void> Trainer::prepare() {
  co_await groups_.establish();
  divided_ = co_await divide(world_, &options_, ranks());
  const model::ModelSpec& spec = world_.model.spec();
  summands_.emplace(runtime(), ranks(), spec, divided_.get(), options_.plan.mesh);
  co_await summands_->establish();
  RunStart run_start = co_await begin(world_, &options_, ranks(), &whole());
  if (ranks().data.rank() == 0 && !run_start.resumed) {
    co_await summands_->spread_shared(&run_start.parameters);
  }
  plan_ = run_start.plan;
  steps_ = first_step_ = run_start.steps;
  samples_ = run_start.samples;
  saved_at_ = run_start.resumed ? samples_ : -1;
  exchange::Layout layout = lay_out(plan_, spec, groups_.levels(), options_.own);
  summands_->assign(layout, plan_.resolved.buckets);
  const int versions = divided_ ? divided_->versions(ranks().position.pipeline) : 1;
  co_await require_memory_for(&layout, versions);
  state_ = std::make_unique<State>(runtime().transport, plan_, std::move(layout), spec, options_.own.rules,
                                   versions);
  co_await groups_.share(state_.get());
  co_await restore(world_, ranks(), &run_start, state_.get());
  const data::Dataset& train = *world_.datasets.train;
  co_await compare_data();
  // Other ranks than before may be other batches than before.
  const plan::Reached reached = run_start.same_world ? plan::Reached{} : plan::Reached{steps_, samples_};
  total_ = plan::total_samples(plan_, present(), train.size(), reached);
  rate_.emplace(plan_.learning_rate, total_, options_.own.schedules);
  workers_ = plan::workers(plan_, present());
  shares_.emplace(ranks(), workers_);
  replicas_ = std::make_unique<Replicas>(runtime(), ranks(),
                                         Replicas::Setup{state_.get(), &plan_, total_, chronicler_.log(),
                                                         groups_.failures(), options_.own, &world_.observer});
  auto same = compare_weights("initial parameters");
  co_await same;
  meter_.begin_bytes();  // before workers that are faster may be served
  co_await replicas_->begin(&run_start);
  const RankGroups everybody = ranks();
  const auto ahead = exchange::gathered_ahead(plan_.exchange.levels, options_.own);
  if (ahead) {
    const exchange::Arenas arenas = state_->arenas(0);
    gathering_ = std::make_unique<exchange::Gathering>(
        runtime(),
        exchange::Gathering::Setup{&state_->layout(), arenas.master, arenas.compute, &everybody.levels});
  }
  if (divided_)
    staged_ =
        std::make_unique<StagedPass>(runtime(), StagedPass::Setup{.model = &world_.model,
                                                                  .divided = divided_.get(),
                                                                  .replica = everybody.replica,
                                                                  .binding = state_->binding(),
                                                                  .type = plan_.precision.compute,
                                                                  .master = &state_->master(),
                                                                  .replicas = everybody.data.size(),
                                                                  .activations = plan_.pipeline.activations,
                                                                  .parameters = gathering_.get(),
                                                                  .ahead = ahead.value_or(0)});
  evaluator_ = std::make_unique<Evaluator>(world_, plan_, everybody, staged_.get());
  saver_ = std::make_unique<Saver>(world_, everybody,
                                   Saver::Setup{&options_, &plan_, state_.get(), replicas_.get(), &whole()});
  Stepper::Setup stepping{&plan_, state_.get(), &everybody.levels, first_step_, staged_.get()};
  if (divided_) stepping.replica = &everybody.replica->group;
  stepping.summands = summands_->groups();
  stepper_ = std::make_unique<Stepper>(world_, stepping);
  coding_ = std::make_unique<CodecStats>(plan_.exchange.levels, &everybody.levels, everybody.outer);
  delayed_ = run_start.delayed;
  runtime().pending().name_units(unit_names(plan_, first_step_, divided_ ? divided_->updates : 1));
  for (exchange::Levels* served : {&everybody.levels, everybody.outer})
    if (served) served->set_turn(steps_);
  coordinator_ = make_pace();
  co_await coordinator_->establish();
  const std::int64_t batch = plan::global_batch(plan_, everybody.group.size());
  data::Sampler sampler(plan_.seed, train.size(), batch);
  if (steps_ > 0) {  // of the last step, which began before its samples
    const std::int64_t in_epoch = (samples_ - 1) % train.size();
    clock_ = clock_at(steps_ - 1, samples_ - 1 - in_epoch % batch);
  } else {
    clock_ = clock_at(0, 0);
  }
  loader_ = std::make_unique<data::Loader>(
      runtime(), train, sampler, plan_.data.prefetch, samples_,
      coordinator_->counts_own() ? total_ : std::numeric_limits<std::int64_t>::max() / 2, workers_,
      everybody.position.data);
  first_samples_ = samples_;
}

task::Task<void> Trainer::require_memory_for(const exchange::Layout* layout, int versions) {
  const int world = ranks().group.size();
  const optim::RuleRow& rule = optim::find_rule(plan_.optimiser.rule, options_.own.rules);
  const MemoryNeed need =
      memory_need(plan_, arena_bytes(plan_, *layout, rule, versions), world_.model.spec(), divided_.get(),
                  ranks().position, plan::global_batch(plan_, world), plan::workers(plan_, world));
  const auto told = co_await ranks().agreement.gather(pack(options_.memory, need));
  require_memory(told);
}

std::unique_ptr<StepCoordinator> Trainer::make_pace() {
  const RankGroups everybody = ranks();
  const Position here{steps_, samples_};
  return train::make_step_coordinator(
      plan_,
      {everybody.lasting, everybody.agreement, workers_, plan::global_batch(plan_, everybody.group.size()),
       SyncTriggers(plan_, static_cast<double>(world_.datasets.train->size()), total_, here), here,
       groups_.failures(), [this](const ProgressTracker::Loss& loss) { lost(loss); }, options_.own,
       everybody.levels.size() > 1 ? &everybody.levels.group(0) : nullptr, chronicler_.log(),
       StepReduction::Carries::Totals, world_.model.spec().task.counts,
       world_.model.spec().task.counts_are()});
}

RunInfo Trainer::info() const {
  RunInfo info;
  info.plan = plan_;
  info.parameters = whole().parameter_count();
  info.train_size = world_.datasets.train->size();
  info.total_samples = total_;
  info.start_step = steps_;
  info.start_samples = samples_;
  info.arenas = state_->bytes();
  info.now = meter_.now();
  return info;
}

task::Task<void> Trainer::loop() {
  // Here and no earlier: what this starts is unwound only if the loop fails.
  if (delayed_) stepper_->go_on_with(*delayed_);
  co_await part();
  meter_.begin_steps();
  bool ended = coordinator_->counts_own() && samples_ >= total_;
  while (!ended) {
    if (coordinator_->steps()) {
      co_await next_step();
    }
    const std::optional<SyncActions> due = coordinator_->due({steps_, samples_});
    if (!due) continue;
    ended = co_await come_together(*due);
  }
  // An interrupted run saves what a delay has not updated yet.
  auto ending = interrupted_ ? stepper_->settle() : stepper_->drain();
  co_await ending;
  co_await flush_report();
}

/// The next step, if the others' have not all been done meanwhile.
task::Task<void> Trainer::next_step() {
  co_await catch_up();
  if (coordinator_->counts_own() && samples_ >= total_) co_return;
  const Instant asked = meter_.now();
  data::Batch batch = co_await loader_->next();
  meter_.waited_for_data(asked);
  if (data::FaultLog* faults = told_faults()) tell(faults->news());
  co_await step(&batch);
}

/// Leaves out the steps that faster workers did without this one.
task::Task<void> Trainer::catch_up() {
  exchange::Levels& levels = ranks().levels;
  levels.begin_turn();
  while (steps_ < levels.turn() && (!coordinator_->counts_own() || samples_ < total_)) {
    data::Batch skipped = co_await loader_->next();
    ++steps_;
    samples_ += skipped.global_size;
  }
}

/// Servers go on without this rank until it contributes again.
task::Task<void> Trainer::pause() {
  co_await stepper_->settle();
  if (replicas_->outer_loop()) {
    co_await replicas_->outer_loop()->arrive();
  }
  co_await replicas_->pause(steps_);
}

/// Every rank comes here equally often. True when training is over.
task::Task<bool> Trainer::come_together(SyncActions mine) {
  Position position{steps_, samples_};
  if (coordinator_->pauses()) {
    co_await pause();
  }
  if (Membership* membership = groups_.membership()) {
    co_await membership->call();
  }
  const SyncActions what = co_await coordinator_->agree(mine, asked_to_stop(), &position);
  samples_ = position.samples;
  interrupted_ = what.stop && what.interrupted;
  if (what.end || what.stop) co_return true;
  co_await stepper_->settle();
  const Instant begin = meter_.now();
  if (what.evaluate) {
    co_await evaluate();
  }
  if (what.save) {
    co_await save();
  }
  co_await part();
  meter_.leave_out(begin);
  co_return false;
}

/// What all do together is done: from here on a worker may be lost.
task::Task<void> Trainer::part() {
  Membership* membership = groups_.membership();
  if (!membership) co_return;
  co_await membership->part();
  for (const ProgressTracker::Loss& loss : std::exchange(untold_, {})) tell_of(loss);
}

/// At rank 0, once for each.
void Trainer::lost(const ProgressTracker::Loss& loss) {
  if (Membership* membership = groups_.membership(); membership && membership->together())
    untold_.push_back(loss);
  else
    tell_of(loss);
}

void Trainer::tell_of(const ProgressTracker::Loss& loss) {
  lost_.push_back(loss.rank);
  std::string why;
  try {
    std::rethrow_exception(loss.why);
  } catch (const std::exception& error) {
    why = error.what();
  }
  const std::int64_t share = (total_ - first_samples_) / workers_;
  const std::string rest = coordinator_->counts_own()
                               ? fmt::format("about {} samples of its share are left out",
                                             std::max<std::int64_t>(0, share - loss.samples))
                               : "the others train its share";
  world_.observer.noticed(fmt::format(
      "{}. It had reported {} steps with {} samples; what it was computing is lost, and {}. {} workers go on",
      why, loss.steps, loss.samples, rest, workers_ - static_cast<int>(lost_.size())));
}

task::Task<void> Trainer::step(const data::Batch* batch) {
  const optim::StepClock clock = clock_ = clock_at(steps_, samples_);
  StepReport report;
  report.step = steps_ + 1;
  report.epoch = batch->epoch;
  report.samples = samples_ + batch->global_size;
  report.rate = clock.rate;
  StepReduction::GlobalStatus global;
  const StepReduction::LocalStatus local{.stop = asked_to_stop() || out_of_time(),
                                         .divergence = stepper_->divergence()};
  const model::StepInput input{
      batch->samples.inputs(),   batch->samples.labels,        shares_->mean_over(batch->global_size),
      plan_.batch.micro_batches, stepper_->binding_of(steps_), batch->targets};
  const Stepper::Done done =
      co_await stepper_->run(&input, shares_->contributed(batch->global_size), clock,
                             reports_.tell(coordinator_.get(), local, &global), &global.divergence);
  reports_.finish(global, done.gradient_norm_before);
  report.skipped = done.skipped;
  if (done.skipped) tell_of_skipped(report.step, global.divergence);
  coding_->report(report);
  meter_.end_step(done, report);
  steps_ = report.step;
  samples_ = coordinator_->samples(report.samples);
  reports_.stepped({report, batch->global_size, batch->size(), done.output});
  co_await meet(clock);
  if (!replicas_->apart() && plan_.report.hash_steps > 0 && steps_ % plan_.report.hash_steps == 0) {
    co_await stepper_->settle();
    auto same = compare_weights("parameters");
    co_await same;
  }
}

/// Replicas that train apart meet, if this step is one after which they do.
task::Task<void> Trainer::meet(optim::StepClock clock) {
  exchange::OuterLoop* outer_loop = replicas_->outer_loop();
  if (!outer_loop || !outer_loop->due_after(steps_)) co_return;
  co_await stepper_->settle();
  const Instant begin = meter_.now();
  co_await outer_loop->after(clock);
  meter_.met(begin);
}

/// Rank 0's own: others' are for whoever runs them to tell of. Null: none are kept, or they are another's.
data::FaultLog* Trainer::told_faults() const {
  return world_.runtime.rank() == Rank(0) ? world_.datasets.faults.get() : nullptr;
}

void Trainer::tell(const std::optional<std::string>& news) {
  if (news) world_.observer.noticed(*news);
}

/// The parts of a divided model have buckets of their own.
std::string Trainer::name_of_bucket(const Divergence& divergence) const {
  const auto index = static_cast<std::size_t>(divergence.bucket);
  return divided_ ? fmt::format("bucket {} of its part", index) : state_->layout().buckets.at(index).name;
}

/// The first ones, and then ever fewer.
void Trainer::tell_of_skipped(std::int64_t step, const Divergence& divergence) {
  constexpr std::int64_t kFirst = 4;
  ++skipped_;
  if (skipped_ > kFirst && !std::has_single_bit(static_cast<std::uint64_t>(skipped_))) return;
  std::string whose = fmt::format("{} ranks' losses or gradients are", divergence.ranks);
  if (divergence.ranks == 1)
    whose = divergence.losses > 0 ? fmt::format("the loss of rank {} is", divergence.rank)
                                  : fmt::format("the gradient of {} at rank {} is",
                                                name_of_bucket(divergence), divergence.rank);
  world_.observer.noticed(fmt::format("step {} is skipped, the {}{} so far: {} not finite", step, skipped_,
                                      skipped_ == 1   ? "st"
                                      : skipped_ == 2 ? "nd"
                                      : skipped_ == 3 ? "rd"
                                                      : "th",
                                      whose));
}

bool Trainer::asked_to_stop() const {
  const bool asked = options_.stop && options_.stop->load(std::memory_order_relaxed);
  if (asked && options_.follow) throw Error(ErrorKind::Interrupted, "stopped while it followed an order");
  return asked;
}

bool Trainer::out_of_time() const {
  return plan_.length.seconds > 0 && !options_.follow && world_.runtime.rank() == Rank(0) &&
         to_seconds(meter_.trained()) >= plan_.length.seconds;
}

/// Ends what a failure, of the preparations too, left in flight; and gives back what is not this object's.
task::Task<void> Trainer::tidy(std::exception_ptr error) {
  if (error && stepper_) {
    co_await stepper_->abandon(error);
  }
  if (error && replicas_) {
    co_await replicas_->abandon(error);
  }
  if (error && coordinator_) {
    co_await coordinator_->abandon(error);
  }
  if (loader_) {
    co_await loader_->close();
  }
  // The arenas die with this object; the model lives on.
  auto unbinding = on_compute(&runtime(), "unbind", [this] { world_.model.unbind(); });
  co_await unbinding;
}

/// On the way. REQUIRES: settled.
task::Task<void> Trainer::evaluate() {
  if (!tests()) co_return;
  co_await flush_report();
  const std::uint64_t before = bytes_of_training();
  const auto sent = static_cast<double>(before);
  co_await replicas_->load_consensus();
  auto evaluating = evaluator_->evaluate({.step = steps_, .samples = samples_, .bytes_sent = sent});
  const Evaluation seen = co_await evaluating;
  if (gathering_) meter_.leave_out(bytes_of_training() - before);  // a gather of all for each batch
  co_await replicas_->restore_local();
  world_.observer.evaluated(seen);
  if (data::FaultLog* faults = told_faults()) tell(faults->rest());
  require_finite(seen);
}

/// The weights are, but too large: no model either.
void Trainer::require_finite(const Evaluation& evaluation) const {
  if (std::isfinite(evaluation.loss) || plan_.on_divergence == plan::OnDivergence::Ignore) return;
  throw exchange::diverged(evaluation.step, "the loss of the test afterwards", {.operation = "test"});
}

/// What a model of bytes writes, at rank 0, after the test set's beginning. Parts of one write nothing.
task::Task<void> Trainer::write(Outcome* outcome) {
  const int count = world_.model.spec().task.written_tokens;
  const data::Dataset& test = *world_.datasets.test;
  if (count == 0 || !std::isfinite(outcome->test.loss) || divided_ || !test.shape().bytes ||
      runtime().rank() != Rank(0))
    co_return;
  auto writing = on_compute(&runtime(), "write", [this, outcome, count, &test] {
    constexpr std::size_t kPrompt = 32;
    constexpr std::int64_t kFirst[] = {0};
    const data::Samples first = data::read_samples(test, kFirst);
    const std::span<const std::int64_t> tokens = data::whole(first.parts[0]);
    const auto prompt = tokens.first(std::min(kPrompt, tokens.size()));
    for (std::int64_t byte : prompt) outcome->prompt += static_cast<char>(byte);
    for (std::int64_t byte : world_.model.write(prompt, count, plan_.seed))
      outcome->written += static_cast<char>(byte);
  });
  co_await writing;
}

task::Task<void> Trainer::save() {
  if (saved_at_ == samples_) co_return;
  if (exchange::OuterLoop* outer_loop = replicas_->outer_loop()) {
    co_await outer_loop->arrive();  // what a meeting still sends is training's
  }
  const std::uint64_t before = bytes_of_training();
  co_await saver_->save(steps_, samples_, stepper_->to_come());
  meter_.leave_out(bytes_of_training() - before);
  saved_at_ = samples_;
}

/// Makes sure that all ranks opened as many samples of the same shape: with others they would take each
/// other's shares, and end at different steps.
task::Task<void> Trainer::compare_data() {
  const data::Dataset& train = *world_.datasets.train;
  std::string sets = fmt::format("{} samples of {}, {} to test with", train.size(), describe(train.shape()),
                                 tests() ? world_.datasets.test->size() : 0);
  std::string what = "the data sets";
  co_await ranks().agreement.require_equal(std::move(sets), std::move(what));
}

/// Hashes the master weights and makes sure that all ranks with the same part of the model have the same.
/// What is kept is of the whole model.
task::Task<void> Trainer::compare_weights(std::string what) {
  std::uint64_t hash = 0;
  bool finite = true;
  if (state_->in_parts()) {
    const std::uint64_t before = meter_.bytes();
    TensorHash all;
    ShardTransfer shards(ranks().data, ranks().levels, state_->layout());
    auto showing = shards.show(&state_->master(), state_->order(), [&](std::size_t slot, ConstView values) {
      all.add(slot, values);
      finite = finite && tensor::all_finite(state_->master().type(), values);
    });
    co_await showing;
    hash = all.value();
    meter_.leave_out(meter_.bytes() - before);
  } else {
    tensor::Cost cost{0, state_->master().bytes().size()};
    auto hashing = on_compute(
        &runtime(), "hash",
        [&] {
          hash = state_->hash();
          finite = tensor::all_finite(state_->master().type(), state_->master().bytes());
        },
        cost);
    co_await hashing;
  }
  if (!finite && plan_.on_divergence != plan::OnDivergence::Ignore)
    throw exchange::diverged(steps_, fmt::format("a weight of rank {} afterwards", runtime().rank().value()),
                             {.rank = runtime().rank(), .operation = "compare weights"});
  co_await ranks().data_agreement.require_equal(hash, std::move(what));
  hash_ = hash;
  if (plan::ranks_of_replica(plan_.mesh) == 1) co_return;
  Packer packer;
  packer.number(std::bit_cast<std::int64_t>(hash));
  const auto parts = co_await ranks().replica->agreement.gather(packer.take());
  hash_ = hash_of(parts);
}

task::Task<Outcome> Trainer::conclude() {
  co_await save();
  if (replicas_->apart()) {  // from here on all have what stands for the model
    if (exchange::OuterLoop* outer_loop = replicas_->outer_loop();
        outer_loop && !exchange::served_level(plan_.exchange.levels) && coordinator_->counts_own()) {
      co_await outer_loop->conclude(clock_);
    }
    co_await replicas_->close();
    co_await replicas_->load_consensus();
  }
  const RankGroups everybody = ranks();
  Outcome outcome;
  outcome.end = interrupted_ ? Outcome::End::Interrupted : Outcome::End::Complete;
  auto same = compare_weights("final parameters");
  co_await same;
  outcome.parameter_hash = hash_;
  const auto sent = static_cast<double>(bytes_of_training());
  std::vector<double> sums = {sent, stands_for_worker() ? static_cast<double>(steps_ - first_step_) : 0,
                              static_cast<double>(skipped_)};
  coding_->give(sums);
  if (!interrupted_ && tests()) {
    auto evaluating = evaluator_->evaluate({.step = steps_, .samples = samples_, .bytes_sent = sent});
    outcome.test = co_await evaluating;
    world_.observer.evaluated(outcome.test);
    if (data::FaultLog* faults = told_faults()) tell(faults->rest());
    require_finite(outcome.test);
    co_await write(&outcome);
  }
  sums = co_await everybody.agreement.sum(std::move(sums));
  const double steps = std::max(1.0, sums[1] / workers_);
  outcome.bytes_sent_per_step = sums[0] / steps / everybody.group.size();
  outcome.codecs =
      coding_->reports_of(std::span<const double>(sums).subspan(3), steps * everybody.group.size());
  if (exchange::served_level(plan_.exchange.levels)) {
    const Replicas::Staleness staleness = co_await replicas_->count_staleness();
    outcome.staleness = staleness.counts;
    outcome.dropped = staleness.dropped;
  }
  outcome.skipped = exchange::workers_keep_step(plan_.exchange.levels, options_.own)
                        ? skipped_
                        : static_cast<std::int64_t>(sums[2]);
  outcome.train_loss = reports_.epoch_loss();
  if (const Membership* membership = groups_.membership()) outcome.lost = membership->missing();
  outcome.steps = steps_;
  outcome.samples = samples_;
  outcome.epochs = static_cast<double>(samples_) / static_cast<double>(world_.datasets.train->size());
  outcome.copies_per_step = world_.model.copies().copies;
  outcome.copy_bytes_per_step = world_.model.copies().bytes;
  outcome.crossings = world_.model.crossings();
  const bool exports = !interrupted_ && !options_.out.empty();
  if (exports || !tests()) {  // whoever tests the model has the one that others would get
    co_await evaluator_->average_buffers();
  }
  if (auto notice = chronicler_.compare(hash_)) world_.observer.noticed(*notice);
  if (options_.record_order) {
    outcome.order =
        co_await chronicler_.gather(&everybody.group, &everybody.agreement, everybody.lasting.size(), hash_);
  }
  if (plan_.report.trace) {
    outcome.traces =
        co_await everybody.agreement.gather(pack_spans(runtime().recorder.all(), options_.clock_offset));
  }
  co_await part();
  if (exports) {
    co_await saver_->export_model();
  }
  co_await stepper_->drain();
  co_await coordinator_->close();
  // Those, too, that only the last list had.
  if (runtime().rank() == Rank(0)) outcome.lost = lost_;
  co_return outcome;
}

}  // namespace

task::Task<Outcome> train(TrainContext world, TrainOptions options) {
  exchange::require_whole(options.own);
  Trainer trainer(world, options);
  co_return co_await trainer.run();
}

}  // namespace taxon::train
