#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/rng.h"
#include "exchange/consistency/rule.h"

namespace taxon::exchange {
namespace {

struct SampledOptions {
  std::int64_t staleness = 0;
  int sample = 1;
};
template <plan::Like<SampledOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(plan::Field{.key = "staleness",
                    .sentence = "Steps that a worker may be ahead of those that it looks at.",
                    .min = 0,
                    .max = 1e9},
        o.staleness);
  visit(plan::Field{.key = "sample",
                    .sentence = "beta: of so many other workers, drawn anew for each step.",
                    .min = 1,
                    .max = 1 << 20},
        o.sample);
}

/// Probabilistic synchronous parallel (PSP: Wang, Catterall and Mortier, arXiv 1709.07772): before its next
/// step a worker looks at beta others, drawn at random, and waits for those that are more than `staleness`
/// behind. Nobody needs to know where all are, and few draws catch a straggler; how far that one falls behind
/// is not bounded. What is drawn depends on seed, unit, worker and step alone.
class Sampled final : public ConsistencyRule {
 public:
  Sampled(const SampledOptions& options, const ConsistencyContext& context)
      : options_(options), seed_(context.seed), unit_(context.unit) {}
  std::int64_t lead(int, WorkerClocks) const override { return options_.staleness; }
  int apply(WorkerClocks) const override { return 1; }
  bool waits_for(int worker, int other, WorkerClocks workers) const override {
    const auto others = workers.size() - 1;
    std::map<std::size_t, int> moved;  // Fisher-Yates over the others, of which few are drawn
    const auto at = [&](std::size_t i) {
      const auto found = moved.find(i);
      if (found != moved.end()) return found->second;
      return static_cast<int>(i) + (static_cast<int>(i) < worker ? 0 : 1);
    };
    const std::int64_t step = workers[static_cast<std::size_t>(worker)].handed_in;
    Rng rng(seed_, fmt::format("sample {} {} {}", unit_, worker, step));
    const std::size_t drawn = std::min(static_cast<std::size_t>(options_.sample), others);
    for (std::size_t i = 0; i < drawn; ++i) {
      const std::size_t j = i + rng.below(others - i);
      const int picked = at(j);
      if (picked == other) return true;
      moved[j] = at(i);
    }
    return false;
  }

 private:
  const SampledOptions options_;
  const std::uint64_t seed_;
  const std::uint32_t unit_;
};

plan::ConsistencyBounds bounds(const plan::LevelPlan& level) {
  const auto options = level.options.read<SampledOptions>();
  return {.lead = plan::ConsistencyBounds::kUnbounded,
          .apply = 1,
          .words = fmt::format("staleness {} to {} sampled", options.staleness, options.sample)};
}

}  // namespace

ConsistencyRow sampled() {
  return {.name = "sampled",
          .sentence =
              "a worker waits for `sample` others, drawn anew for each step, that are more than "
              "`staleness` steps behind (PSP)",
          .make = [](const plan::LevelPlan& level,
                     const ConsistencyContext& context) -> std::unique_ptr<ConsistencyRule> {
            return std::make_unique<Sampled>(level.options.read<SampledOptions>(), context);
          },
          .bounds = bounds,
          .options = plan::option_keys<SampledOptions>};
}

}  // namespace taxon::exchange
