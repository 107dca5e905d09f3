#include "faults/search.h"

#include <fmt/format.h>

#include <charconv>

#include "base/error.h"
#include "data/memory_storage.h"
#include "faults/conservation.h"

namespace taxon::faults {
namespace {

constexpr int kAttempts = 1000;  // shapes that are drawn for a seed until one is legal

bool is_usage(const std::exception_ptr& failure) {
  if (!failure) return false;
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error.kind() == ErrorKind::Usage;
  } catch (...) {
    return false;
  }
}

/// The shape and its run without faults.
struct Calm {
  JobShape shape;
  RunSetup setup;
  SimulatedRun seen;
  std::vector<std::string> findings;
};

std::optional<std::string> sums_of(const RunSetup& setup, const SimulatedRun& seen) {
  if (ending_of(seen) != Ending::Complete || seen.report.failure) return {};
  return check_sums(setup.plan, seen, *setup.storage);
}

/// Draws until the plan is legal and its collectives apply to the layout, which the run itself finds out.
Calm find_shape(const Job& job, std::uint64_t seed) {
  std::string last;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Calm calm{draw_shape(seed, attempt), {}, {}};
    const int ranks = calm.shape.ranks;
    calm.setup = {lay_over(job.recipe, calm.shape, job.known), make_cluster(calm.shape), ranks, seed};
    const auto problems = plan::check_plan(calm.setup.plan, ranks, job.known);
    if (!problems.empty()) {
      last = problems.front().key + ": " + problems.front().sentence;
      continue;
    }
    data::MemoryStorage storage;
    calm.setup.storage = &storage;
    calm.seen = perform(job, calm.setup);
    if (is_usage(calm.seen.report.failure)) {
      last = message_of(calm.seen.report.failure);
      continue;
    }
    if (!calm.seen.report.failure) calm.findings = check_calm(calm.setup.plan, calm.seen);
    if (auto moved = sums_of(calm.setup, calm.seen)) calm.findings.push_back("without any fault: " + *moved);
    return calm;
  }
  throw Error(ErrorKind::Usage, fmt::format("the recipe {} fits none of {} shapes of seed {}; the last: {}",
                                            job.recipe.name, kAttempts, seed, last));
}

/// After this much virtual time a run is taken for stuck: far longer than any schedule can stretch it.
Duration patience(double length) { return from_seconds(10 + 1e5 * length); }

}  // namespace

Trial try_seed(const Job& job, std::uint64_t seed) {
  Trial trial;
  trial.seed = seed;
  Calm calm = find_shape(job, seed);
  trial.shape = calm.shape;
  if (calm.seen.report.failure) {
    trial.findings.push_back("without any fault: " + message_of(calm.seen.report.failure));
    trial.seen = std::move(calm.seen);
    trial.ending = ending_of(trial.seen);
    return trial;
  }
  const double length = to_seconds(calm.seen.report.time);
  trial.schedule = draw_schedule(seed, calm.setup.cluster, calm.shape.ranks, length);
  data::MemoryStorage storage, another;
  RunSetup setup = calm.setup;
  setup.cluster = trial.schedule.cluster;
  setup.limit = patience(length);
  setup.storage = &storage;
  trial.seen = perform(job, setup);
  trial.ending = ending_of(trial.seen);
  trial.findings = calm.findings;
  auto add = [&](std::vector<std::string> more) {
    trial.findings.insert(trial.findings.end(), more.begin(), more.end());
  };
  add(check(setup.plan, trial.schedule, calm.seen, trial.seen));
  if (auto moved = sums_of(setup, trial.seen)) add({*moved});
  setup.storage = &another;
  add(check_repeated(trial.seen, perform(job, setup)));
  trial.resumed = setup.plan.checkpoint.every_steps > 0 &&
                  (trial.ending == Ending::Lost || trial.ending == Ending::Stuck);
  if (trial.resumed) {
    setup.cluster = calm.setup.cluster;
    setup.storage = &storage;
    setup.start = train::TrainOptions::Start::Resume;
    add(check_resumed(setup.plan, calm.seen, perform(job, setup)));
  }
  return trial;
}

Seeds parse_seeds(const std::string& text) {
  auto number = [&](std::string_view digits) {
    std::uint64_t value = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || digits.empty())
      throw Error(ErrorKind::Usage,
                  fmt::format("seeds are a number or FIRST..LAST, such as 1..10000, not {}", text));
    return value;
  };
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) return {number(text), number(text)};
  const Seeds seeds{number(std::string_view(text).substr(0, dots)),
                    number(std::string_view(text).substr(dots + 2))};
  if (seeds.first > seeds.last)
    throw Error(ErrorKind::Usage, fmt::format("seeds {}: the first is above the last", text));
  return seeds;
}

Tally search(const Job& job, Seeds seeds, const std::function<GoOn(const Trial&)>& show) {
  Tally tally;
  for (std::uint64_t seed = seeds.first;; ++seed) {
    const Trial trial = try_seed(job, seed);
    tally.add(trial);
    if (show(trial) == GoOn::No || seed == seeds.last) return tally;
  }
}

}  // namespace taxon::faults
