#include <fmt/format.h>

#include "optim/staleness/served.h"
#include "plan/legality.h"

namespace taxon::optim {
namespace {

/// A replica that set out from what it was served and came to x counts as if it had set out from what the
/// owner has now: x := now + (x - served). Downpour's and ADAG's workers hand in such differences.
class Moved final : public KeepsServed {
 public:
  using KeepsServed::KeepsServed;
  void correct(const tensor::Arena& handed_in, const tensor::Arena& now, UpdateRange place,
               const Lateness& lateness) override {
    for_master(handed_in, [&](auto zero) {
      using T = decltype(zero);
      auto x = handed_in.values<T>({place.sum, place.weights.size});
      auto w = now.values<T>(place.weights);
      auto from = of<T>(lateness.worker, place);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = w[i] + (x[i] - from[i]);
    });
  }
};

constexpr plan::LevelRule kRules[] = {
    {"exchange.levels", "late moved needs delay 0 and mixing 0, since replicas set out from what was served",
     [](const plan::LegalityInput&, const plan::LevelPlan& level) {
       return plan::unless(level.delay == 0 && level.mixing == 0,
                           fmt::format("delay is {}, mixing is {}", level.delay, level.mixing));
     }},
};

}  // namespace

LateRow moved() {
  return {.name = "moved",
          .sentence = "a replica counts as if it had set out from what the owner has now",
          .corrects = LateRow::Corrects::Weights,
          .keeps_served = true,
          .make = [](const plan::LevelPlan&, const LateContext& context) -> std::unique_ptr<StalenessRule> {
            return std::make_unique<Moved>(context);
          },
          .scheduling = "late ones moved along",
          .rules = kRules};
}

}  // namespace taxon::optim
