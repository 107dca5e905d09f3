// A consistency of servers of one's own: dynamic SSP (Zhao, An, Liu and Chen, "Dynamic stale synchronous
// parallel distributed training for deep learning", ICDCS 2019, algorithms 1 and 2). A worker may lead the
// slowest by s_lower steps, as in SSP; the one that has just gone beyond that is granted more, up to s_upper,
// so that it stops when the slowest is about to hand in too: what they took for their last steps tells when.
#pragma once

#include <fmt/format.h>
#include <taxon/rule.h>

#include <algorithm>
#include <memory>
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
    seen.interval = seen.pushes++ > 0 ? now - seen.last : taxon::Duration(0);
    seen.last = now;
    const int slowest = furthest_behind(clocks);
    const std::int64_t reached = at(clocks, worker).reached();
    const bool leads = std::all_of(clocks.begin(), clocks.end(), [&](const taxon::exchange::WorkerClock& w) {
      return !w.takes_part || w.reached() <= reached;
    });
    if (leads && reached >= seen.granted && reached - at(clocks, slowest).clock > options_.lower)
      seen.granted = reached + extra_steps(seen, seen_[index(slowest)]);
  }
  std::string describe(Clocks clocks) const override {
    std::string leads;
    for (std::size_t w = 0; w < seen_.size(); ++w)
      leads += fmt::format(" {}", lead(static_cast<int>(w), clocks));
    return ", may lead by" + leads;
  }

 private:
  struct Seen {
    std::int64_t pushes = 0;
    taxon::Instant last{};        // A[p][0] in the paper
    taxon::Duration interval{0};  // A[p][0] - A[p][1]; 0: not known yet
    std::int64_t granted = 0;     // the clock at which it stops to be checked again
  };
  static std::size_t index(int worker) { return static_cast<std::size_t>(worker); }
  static const taxon::exchange::WorkerClock& at(Clocks clocks, int worker) { return clocks[index(worker)]; }
  static int furthest_behind(Clocks clocks) {
    int slowest = -1;
    for (int w = 0; w < static_cast<int>(clocks.size()); ++w)
      if (at(clocks, w).takes_part && (slowest < 0 || at(clocks, w).clock < at(clocks, slowest).clock))
        slowest = w;
    return slowest;
  }
  /// r in 0 .. s_upper - s_lower for which some push of the slowest, A_s + k I_s, comes nearest to the push
  /// A_p + r I_p at which the worker would stop; the fewest of several.
  std::int64_t extra_steps(const Seen& worker, const Seen& slowest) const {
    if (worker.interval <= taxon::Duration(0) || slowest.interval <= taxon::Duration(0)) return 0;
    std::int64_t best = 0;
    taxon::Duration least = taxon::Duration::max();
    for (std::int64_t r = 0; r <= options_.upper - options_.lower; ++r) {
      const taxon::Duration stops = worker.last + r * worker.interval - slowest.last;
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
