#include "exchange/consistency/clocks.h"

#include <fmt/format.h>

#include "plan/legality.h"

namespace taxon::exchange {
namespace {

class Clocks final : public ConsistencyRule {
 public:
  explicit Clocks(Consistency numbers) : numbers_(numbers) {}
  std::int64_t lead(int, WorkerClocks) const override { return numbers_.staleness; }
  int quorum(WorkerClocks) const override { return numbers_.quorum; }
  int apply(WorkerClocks) const override { return numbers_.apply; }

 private:
  const Consistency numbers_;
};

Consistency numbers_of(const plan::LevelPlan& level) { return level.options.read<Consistency>(); }

plan::ConsistencyBounds bounds(const plan::LevelPlan& level) {
  const Consistency numbers = numbers_of(level);
  std::string words = "synchronous";
  if (numbers.staleness < 0) words = "asynchronous";
  if (numbers.staleness > 0) words = fmt::format("staleness {}", numbers.staleness);
  if (numbers.quorum > 0) words += fmt::format(", quorum {}", numbers.quorum);
  if (numbers.apply > 1) words += fmt::format(", {} an update", numbers.apply);
  return {numbers.staleness, numbers.quorum, numbers.apply, std::move(words)};
}

constexpr plan::LevelRule kRules[] = {
    {"exchange.levels", "apply must be the same as quorum where that is above 0",
     [](const plan::LegalityInput&, const plan::LevelPlan& level) {
       const Consistency numbers = numbers_of(level);
       return plan::unless(numbers.quorum == 0 || numbers.quorum == numbers.apply,
                           fmt::format("quorum is {}, apply is {}", numbers.quorum, numbers.apply));
     }},
    {"exchange.levels", "a staleness above 0 needs apply 1, or clocks wait for each other as with 0",
     [](const plan::LegalityInput&, const plan::LevelPlan& level) {
       const Consistency numbers = numbers_of(level);
       return plan::unless(numbers.staleness <= 0 || numbers.apply == 1,
                           fmt::format("apply is {}", numbers.apply));
     }},
};

}  // namespace

std::unique_ptr<ConsistencyRule> make_clocks(Consistency numbers) {
  return std::make_unique<Clocks>(numbers);
}

ConsistencyRow clocks() {
  return {.name = "clocks",
          .sentence =
              "a worker may be `staleness` steps ahead of the `quorum`-th fastest, and `apply` "
              "contributions make an update (BSP, SSP, asynchronous, backup workers, n-softsync)",
          .make = [](const plan::LevelPlan& level,
                     const ConsistencyContext&) { return make_clocks(numbers_of(level)); },
          .bounds = bounds,
          .options = plan::option_keys<Consistency>,
          .rules = kRules};
}

}  // namespace taxon::exchange
