// A consistency of servers of one's own: dynamic SSP (Zhao, An, Liu and Chen, "Dynamic stale synchronous
// parallel distributed training for deep learning", ICDCS 2019, algorithms 1 and 2). A worker may lead the
// slowest by s_lower steps, as in SSP; the one that has just gone beyond that is granted more, up to s_upper,
// so that it stops when the slowest is about to hand in too: what they took for their last steps tells when.
#pragma once

#include <fmt/format.h>
#include <taxon/rule.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

struct DynamicSspOptions {
  std::int64_t lower = 1, upper = 4;
};
template <taxon::plan::Like<DynamicSspOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(taxon::plan::Field{.key = "lower",
                           .sentence = "Steps that a worker may always lead the slowest by.",
                           .min = 0,
                           .max = 1e6},
        o.lower);
  visit(
      taxon::plan::Field{
          .key = "upper", .sentence = "Steps that it may lead by at most.", .min = 0, .max = 1e6},
      o.upper);
}

class DynamicSsp final : public taxon::exchange::ConsistencyRule {
 public:
  using Clocks = taxon::exchange::WorkerClocks;
  DynamicSsp(DynamicSspOptions options, int workers)
      : options_(options), seen_(static_cast<std::size_t>(workers)) {}

  int apply(Clocks) const override { return 1; }
  std::int64_t lead(int worker, Clocks clocks) const override {
    return at(clocks, worker).reached() < seen_[index(worker)].granted ? options_.upper : options_.lower;
  }
  void arrived(int worker, taxon::Instant now, Clocks clocks) override {
    Seen& seen = seen_[index(worker)];
    if (seen.last) seen.interval = now - seen.set_out;
    seen.last = seen.set_out = now;
    const std::int64_t reached = at(clocks, worker).reached();
    const bool used_up = seen.granted > 0 && reached >= seen.granted;
    if (used_up) seen.granted = 0;
    if (!used_up && seen.granted == 0 && behind(worker, clocks) > options_.lower && is_first(worker, clocks))
      if (const std::int64_t extra = extra_steps(seen, seen_[index(slowest(clocks))]); extra > 0)
        seen.granted = reached + extra;
    for (int w = 0; w < static_cast<int>(seen_.size()); ++w) {
      const bool waits = behind(w, clocks) > lead(w, clocks);
      if (seen_[index(w)].waits && !waits) seen_[index(w)].set_out = now;
      seen_[index(w)].waits = waits;
    }
  }
  std::string describe(Clocks clocks) const override {
    std::string leads;
    for (std::size_t w = 0; w < seen_.size(); ++w)
      leads += fmt::format(" {}", lead(static_cast<int>(w), clocks));
    return ", may lead by" + leads;
  }

 private:
  struct Seen {
    std::optional<taxon::Instant> last;  // A[p][0] in the paper: when it handed in
    taxon::Instant set_out{};            // when it went on from there: waiting is no part of a step
    taxon::Duration interval{0};         // what its last step took; 0: not known yet
    std::int64_t granted = 0;  // where it stops, though it could go on by now; 0: nothing is granted
    bool waits = false;
  };
  static std::size_t index(int worker) { return static_cast<std::size_t>(worker); }
  static const taxon::exchange::WorkerClock& at(Clocks clocks, int worker) { return clocks[index(worker)]; }
  static int slowest(Clocks clocks) {
    int slowest = 0;
    for (int w = 1; w < static_cast<int>(clocks.size()); ++w)
      if (at(clocks, w).takes_part &&
          (!at(clocks, slowest).takes_part || at(clocks, w).reached() < at(clocks, slowest).reached()))
        slowest = w;
    return slowest;
  }
  /// Steps that the slowest is behind a worker.
  static std::int64_t behind(int worker, Clocks clocks) {
    return at(clocks, worker).reached() - at(clocks, slowest(clocks)).reached();
  }
  static bool is_first(int worker, Clocks clocks) {
    return std::all_of(clocks.begin(), clocks.end(), [&](const taxon::exchange::WorkerClock& other) {
      return !other.takes_part || other.reached() <= at(clocks, worker).reached();
    });
  }
  /// r in 0 .. s_upper - s_lower for which some push of the slowest, A_s + k I_s, comes nearest to the push
  /// A_p + r I_p at which the worker would stop; the fewest of several.
  std::int64_t extra_steps(const Seen& worker, const Seen& slowest) const {
    if (worker.interval <= taxon::Duration(0) || slowest.interval <= taxon::Duration(0)) return 0;
    std::int64_t best = 0;
    taxon::Duration least = taxon::Duration::max();
    for (std::int64_t r = 0; r <= options_.upper - options_.lower; ++r) {
      const taxon::Duration stops = *worker.last + r * worker.interval - *slowest.last;
      const std::int64_t k = std::max<std::int64_t>(1, stops / slowest.interval);
      const taxon::Duration apart = std::min(std::chrono::abs(stops - k * slowest.interval),
                                             std::chrono::abs(stops - (k + 1) * slowest.interval));
      if (apart < least) least = apart, best = r;
    }
    return best;
  }

  const DynamicSspOptions options_;
  std::vector<Seen> seen_;  // by worker
};

inline constexpr taxon::plan::LevelRule kDynamicSspRules[] = {
    {"exchange.levels", "upper must not be below lower",
     [](const taxon::plan::LegalityInput&, const taxon::plan::LevelPlan& level) {
       const auto options = level.options.read<DynamicSspOptions>();
       return taxon::plan::unless(options.lower <= options.upper,
                                  fmt::format("lower is {}, upper is {}", options.lower, options.upper));
     }}};

inline taxon::exchange::ConsistencyRow dynamic_ssp() {
  return {
      .name = "dynamic_ssp",
      .sentence = "a worker may lead the slowest by `lower` to `upper` steps, as their last steps' times say",
      .make = [](const taxon::plan::LevelPlan& level, const taxon::exchange::ConsistencyContext& context)
          -> std::unique_ptr<taxon::exchange::ConsistencyRule> {
        return std::make_unique<DynamicSsp>(level.options.read<DynamicSspOptions>(), context.workers);
      },
      .bounds =
          [](const taxon::plan::LevelPlan& level) {
            const auto options = level.options.read<DynamicSspOptions>();
            return taxon::plan::ConsistencyBounds{
                .lead = options.upper,
                .apply = 1,
                .words = fmt::format("staleness {} to {}", options.lower, options.upper)};
          },
      .reads_times = true,
      .options = taxon::plan::option_keys<DynamicSspOptions>,
      .rules = kDynamicSspRules};
}
