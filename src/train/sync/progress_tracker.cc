#include "train/sync/progress_tracker.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/told.h"
#include "exchange/channel/channel.h"
#include "train/units.h"

namespace taxon::train {
namespace {

enum Report { Farewell, SampleCount, LossSum, Stop, Counts, ReportSize = Counts + model::kMostCounts };
enum Answer { AllSamples, AllLoss, AllStop, Calls, AllCounts, AnswerSize = AllCounts + model::kMostCounts };
constexpr std::size_t kSize = 8;
static_assert(ReportSize <= kSize && AnswerSize <= kSize);
enum Message : std::uint32_t { kReport, kAnswer };

/// The counts in a report or an answer.
std::span<double> counts_in(std::vector<double>& values, std::size_t from) {
  return std::span(values).subspan(from, model::kMostCounts);
}

bool fell(double now, double before) { return !comm::is_count(now) || now < before; }

}  // namespace

ProgressTracker::ProgressTracker(comm::Communicator& group, Setup setup)
    : group_(group),
      setup_(std::move(setup)),
      gate_(group.runtime().executor(), group.runtime().pending()),
      listeners_(group.runtime().pending()) {
  totals_.samples = static_cast<double>(setup_.samples);
  if (group_.rank() == 0)
    gate_.open("reports of steps", setup_.log, exchange::AsyncEvent::Role::Counter,
               exchange::AsyncEvent::kNoUnit);
}

void ProgressTracker::open() {
  if (group_.rank() != 0) return;
  for (int worker = 0; worker < setup_.workers; ++worker) listeners_.spawn(serve(worker));
}

task::Task<void> ProgressTracker::serve(int worker) {
  Loss so_far{.rank = group_.global(worker)};
  try {
    co_await receive(worker, &so_far);
  } catch (...) {
    so_far.why = std::current_exception();
  }
  if (!so_far.why) co_return;
  if (group_.runtime().pending().cancelled() ||
      !comm::is_expendable_loss(setup_.failures, so_far.rank, so_far.why))
    std::rethrow_exception(so_far.why);
  so_far.why = setup_.failures->lost(so_far.rank);
  if (setup_.lost) setup_.lost(so_far);
}

task::Task<void> ProgressTracker::receive(int worker, Loss* so_far) {
  for (exchange::Channel channel(group_, worker, kLedgerUnit, 0, setup_.failures);; channel.next_use()) {
    const std::int64_t use = channel.use();
    std::vector<double> values(kSize);
    co_await channel.hear(kReport, as_view(std::span(values)), DType::Float64);
    if (values[Farewell] != 0) co_return;
    // A loss may be anything: training can diverge.
    const bool is_flag = values[Stop] == 0 || values[Stop] == 1;
    if (!comm::is_count(values[SampleCount]) || !grew(counts_in(values, Counts)) || !is_flag)
      throw comm::told_wrong(channel.rank(), "reports of steps",
                             fmt::format("{} samples, counts of {}, and a stop of {}", values[SampleCount],
                                         fmt::join(counts_in(values, Counts), " and "), values[Stop]));
    auto turn = gate_.take({exchange::AsyncEvent::Kind::Report, exchange::AsyncEvent::kNoUnit, worker, use});
    co_await turn;
    add(worker, use, values);
    so_far->samples += static_cast<std::int64_t>(values[SampleCount]);
    so_far->steps += values[SampleCount] > 0;
    values.assign(kSize, 0.0);
    values[AllSamples] = totals_.samples;
    values[AllLoss] = totals_.loss_sum;
    std::copy(totals_.counts.begin(), totals_.counts.end(), values.begin() + AllCounts);
    values[AllStop] = totals_.stop ? 1 : 0;
    values[Calls] = static_cast<double>(totals_.calls);
    gate_.over();  // what is heard next is none of this answer's
    co_await channel.say(kAnswer, as_const_view(std::span<const double>(values)), DType::Float64);
  }
}

void ProgressTracker::add(int worker, std::int64_t number, const std::vector<double>& report) {
  totals_.samples += report[SampleCount];
  totals_.loss_sum += report[LossSum];
  for (std::size_t i = 0; i < model::kMostCounts; ++i) totals_.counts[i] += report[Counts + i];
  const bool asked = !totals_.stop && report[Stop] != 0;
  if (gate_.also({exchange::AsyncEvent::Kind::Stop, exchange::AsyncEvent::kNoUnit, worker, number}, asked))
    totals_.stop = true;
  if (!call_open_ && setup_.calls(totals_)) {
    call_open_ = true;
    ++totals_.calls;
  }
}

bool ProgressTracker::grew(std::span<const double> counts,
                           const std::array<double, model::kMostCounts>& from) const {
  if (setup_.counts_are == model::CountsAre::Sums) return true;
  return std::equal(counts.begin(), counts.end(), from.begin(),
                    [](double now, double before) { return !fell(now, before); });
}

task::Task<void> ProgressTracker::exchange(std::vector<double>* values) {
  exchange::Channel channel(group_, 0, kLedgerUnit, use_++);
  co_await channel.say(kReport, as_const_view(std::span<const double>(*values)), DType::Float64);
  if ((*values)[Farewell] != 0) co_return;
  co_await channel.hear(kAnswer, as_view(std::span(*values)), DType::Float64);
}

task::Task<void> ProgressTracker::report(StepReduction::LocalStatus mine, std::int64_t samples,
                                         Totals* totals) {
  std::vector<double> values(kSize);
  values[SampleCount] = static_cast<double>(samples);
  values[LossSum] = mine.loss_sum;
  std::copy(mine.counts.begin(), mine.counts.end(), values.begin() + Counts);
  values[Stop] = mine.stop ? 1 : 0;
  co_await exchange(&values);
  const std::span<double> counts = counts_in(values, AllCounts);
  if (fell(values[AllSamples], totals->samples) || fell(values[Calls], static_cast<double>(totals->calls)) ||
      !grew(counts, totals->counts))
    throw comm::told_wrong(group_.global(0), "reports of steps",
                           fmt::format("{} samples, counts of {} and {} calls, after {}, {} and {}",
                                       values[AllSamples], fmt::join(counts, " and "), values[Calls],
                                       totals->samples, fmt::join(totals->counts, " and "), totals->calls));
  totals->samples = values[AllSamples];
  totals->loss_sum = values[AllLoss];
  std::copy(counts.begin(), counts.end(), totals->counts.begin());
  totals->stop = values[AllStop] != 0;
  totals->calls = static_cast<std::int64_t>(values[Calls]);
}

task::Task<void> ProgressTracker::close() {
  if (works()) {
    std::vector<double> values(kSize);
    values[Farewell] = 1;
    co_await exchange(&values);
  }
  co_await listeners_.join();
}

task::Task<void> ProgressTracker::abandon(std::exception_ptr why) {
  if (!group_.runtime().pending().cancelled()) group_.runtime().pending().cancel(why);
  try {
    co_await listeners_.join();
  } catch (...) {
  }
}

}  // namespace taxon::train
