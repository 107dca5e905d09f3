#include "train/sync/step_coordinator.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/told.h"
#include "exchange/divergence.h"
#include "exchange/levels/levels.h"

namespace taxon::train {
namespace {

/// A count that one rank alone gave to a sum of all.
std::int64_t counted(double sum) {
  if (!comm::is_count(sum))
    throw Error(ErrorKind::Mismatch,
                fmt::format("ranks come together at a count of {}: one of them told another than 0", sum));
  return static_cast<std::int64_t>(sum);
}

/// A vote beside each step: all see the same sum, so they do the same after the same step.
class InStep final : public StepCoordinator {
 public:
  explicit InStep(const StepCoordinatorContext& context)
      : agreement_(context.agreement),
        triggers_(context.triggers),
        reduction_(context.group, context.carries, context.counts) {}

  task::Task<void> establish() override { return reduction_.establish(); }
  task::Task<void> tell(StepReduction::LocalStatus mine, std::int64_t,
                        StepReduction::GlobalStatus* global) override {
    co_await reduction_.cast(mine, global);
    stop_ = global->stop;
  }
  std::optional<SyncActions> due(Position position) override {
    const SyncActions due = triggers_.due(position);
    if (due.end || !stop_) return due.any() ? std::optional(due) : std::nullopt;
    return SyncActions{.stop = true};
  }
  task::Task<SyncActions> agree(SyncActions mine, bool asked_to_stop, Position*) override {
    if (!mine.stop) co_return mine;
    auto asking = agreement_.sum({asked_to_stop ? 1.0 : 0.0});
    const auto asked = co_await asking;
    mine.interrupted = asked[0] > 0;
    co_return mine;
  }

 private:
  Agreement& agreement_;
  SyncTriggers triggers_;
  StepReduction reduction_;
  bool stop_ = false;
};

/// A progress tracker at rank 0. Servers step nothing: they wait where all come together.
class Apart : public StepCoordinator {
 public:
  Apart(const StepCoordinatorContext& context, std::function<bool(const ProgressTracker::Totals&)> calls)
      : context_(context),
        tracker_(context.group, {context.workers, context.begin.samples, std::move(calls), context.failures,
                                 context.log, context.lost, context.counts_are}) {
    seen_.samples = static_cast<double>(context.begin.samples);
    if (context.node) node_.emplace(*context.node);
    tracker_.open();
  }
  bool pauses() const override { return true; }
  bool steps() const override { return context_.group.rank() < context_.workers; }
  task::Task<void> tell(StepReduction::LocalStatus mine, std::int64_t samples,
                        StepReduction::GlobalStatus* global) override {
    const ProgressTracker::Totals before = seen_;
    Divergence divergence = mine.divergence ? *mine.divergence : Divergence();
    co_await tracker_.report(mine, samples, &seen_);
    if (node_) {
      co_await see_as_first(&divergence);
    }
    *global = {.stop = seen_.stop,
               .loss_sum = seen_.loss_sum - before.loss_sum,
               .samples = seen_.samples - before.samples,
               .divergence = divergence};
    for (std::size_t i = 0; i < model::kMostCounts; ++i)
      global->counts[i] = seen_.counts[i] - before.counts[i];
  }
  task::Task<SyncActions> agree(SyncActions mine, bool asked_to_stop, Position* position) override {
    enum Flag { End, Evaluate, Save, Stop, Asked, FlagCount };
    std::vector<double> flags(FlagCount);
    flags[End] = mine.end;
    flags[Evaluate] = mine.evaluate;
    flags[Save] = mine.save;
    // Who takes steps has asked in their reports.
    flags[Stop] = mine.stop || (asked_to_stop && !steps());
    flags[Asked] = asked_to_stop;
    flags = co_await context_.agreement.sum(std::move(flags));
    // Everybody is here: the tracker has heard of all steps, and hears of no other until the next sum is
    // known.
    enum Count { Calls, Samples, CountCount };
    std::vector<double> counts(CountCount);
    if (first()) {
      counts[Calls] = static_cast<double>(tracker_.totals().calls);
      counts[Samples] = counts_own() ? static_cast<double>(position->samples) : tracker_.totals().samples;
      tracker_.came_together();
    }
    counts = co_await context_.agreement.sum(std::move(counts));
    answered_ = counted(counts[Calls]);
    const std::int64_t samples = counted(counts[Samples]);
    if (!counts_own() || !steps()) position->samples = samples;
    co_return SyncActions{flags[End] > 0, flags[Evaluate] > 0, flags[Save] > 0, flags[Stop] > 0,
                          flags[Asked] > 0};
  }
  task::Task<void> close() override { return tracker_.close(); }
  task::Task<void> abandon(std::exception_ptr why) override { return tracker_.abandon(why); }

 protected:
  bool first() const { return context_.group.rank() == 0; }
  /// Those who keep step among those who don't do the same after the same step, or they would wait for each
  /// other: they go by what the first of them saw, and by all of theirs that diverged.
  task::Task<void> see_as_first(Divergence* divergence) {
    enum Value { Samples, LossSum, Stop, Calls, Counts, TheDivergence = Counts + model::kMostCounts };
    std::vector<double> seen(TheDivergence);
    if (context_.node->rank() == 0) {
      seen[Samples] = seen_.samples;
      seen[LossSum] = seen_.loss_sum;
      seen[Stop] = seen_.stop ? 1.0 : 0.0;
      seen[Calls] = static_cast<double>(seen_.calls);
      std::copy(seen_.counts.begin(), seen_.counts.end(), seen.begin() + Counts);
    }
    const bool all = context_.carries == StepReduction::Carries::Divergences;
    if (all)
      seen.insert(seen.end(), {divergence->ranks, divergence->rank, divergence->losses, divergence->bucket});
    seen = co_await node_->sum(std::move(seen));
    seen_.samples = static_cast<double>(counted(seen[Samples]));
    seen_.loss_sum = seen[LossSum];
    seen_.stop = seen[Stop] > 0;
    seen_.calls = counted(seen[Calls]);
    std::copy_n(seen.begin() + Counts, model::kMostCounts, seen_.counts.begin());
    if (all)
      *divergence = {seen[TheDivergence], seen[TheDivergence + 1], seen[TheDivergence + 2],
                     seen[TheDivergence + 3]};
  }

  StepCoordinatorContext context_;
  std::optional<Agreement> node_;
  ProgressTracker tracker_;
  ProgressTracker::Totals seen_;  // as it last said
  std::int64_t answered_ = 0;
};

/// Servers hold workers within a bound of each other, so all take the same number of steps: each knows by
/// itself when.
class Bounded final : public Apart {
 public:
  explicit Bounded(const StepCoordinatorContext& context)
      : Apart(context, [](const ProgressTracker::Totals&) { return false; }) {}
  std::optional<SyncActions> due(Position position) override {
    if (!steps()) return SyncActions{};
    SyncActions due = context_.triggers.due(position);
    due.stop = seen_.stop;
    return due.any() ? std::optional(due) : std::nullopt;
  }
};

/// Nothing holds anybody: only the samples of all say how far training is, and rank 0 calls all together.
class Free final : public Apart {
 public:
  explicit Free(const StepCoordinatorContext& context)
      : Apart(context, [this](const ProgressTracker::Totals& totals) { return calls(totals); }) {}
  bool counts_own() const override { return false; }
  std::int64_t samples(std::int64_t) const override { return static_cast<std::int64_t>(seen_.samples); }
  std::optional<SyncActions> due(Position) override {
    if (!steps()) return SyncActions{};
    if (seen_.calls == answered_ && !seen_.stop) return std::nullopt;
    SyncActions due = first() ? called_ : SyncActions{};
    due.stop = seen_.stop;
    return due;
  }

 private:
  bool calls(const ProgressTracker::Totals& totals) {
    const auto samples = static_cast<std::int64_t>(totals.samples);
    called_ = context_.triggers.due({samples / context_.batch, samples});
    return called_.any();
  }
  SyncActions called_;
};

}  // namespace

// Not in the header: GCC 12 fails on coroutines in a class of which others are derived.
task::Task<void> StepCoordinator::close() { co_return; }
task::Task<void> StepCoordinator::abandon(std::exception_ptr) { co_return; }

SyncTriggers::SyncTriggers(const plan::Plan& plan, double epoch, std::int64_t total, Position begin)
    : total_(total),
      evaluation_(plan.evaluation.every_epochs * epoch, begin.samples),
      checkpoint_(plan.checkpoint.every_epochs * epoch, begin.samples),
      counted_(static_cast<double>(plan.checkpoint.every_steps), begin.steps) {}

SyncActions SyncTriggers::due(Position position) {
  if (position.samples >= total_) return {.end = true};
  SyncActions due{.evaluate = evaluation_.due(position.samples)};
  const bool counted = counted_.due(position.steps);
  due.save = checkpoint_.due(position.samples) || counted;
  return due;
}

std::unique_ptr<StepCoordinator> make_step_coordinator(const plan::Plan& plan,
                                                       const StepCoordinatorContext& given) {
  StepCoordinatorContext context = given;
  if (plan.on_divergence == plan::OnDivergence::Skip) context.carries = StepReduction::Carries::Divergences;
  const auto& levels = plan.exchange.levels;
  if (exchange::workers_keep_step(levels, context.own)) return std::make_unique<InStep>(context);
  if (exchange::workers_are_bounded(levels, context.own)) return std::make_unique<Bounded>(context);
  return std::make_unique<Free>(context);
}

}  // namespace taxon::train
