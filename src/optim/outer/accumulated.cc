#include <fmt/format.h>

#include "optim/outer/masters.h"
#include "plan/legality.h"

namespace taxon::optim {
namespace {

/// Accumulated gradient normalisation (ADAG: Hermans, Spanakis, Moeckel, ACML 2017): what a replica did in
/// the tau steps of a period counts as one step, W += rate (m - W) / tau, however long the period.
class Accumulated final : public OuterRule {
 public:
  Accumulated(const plan::LevelPlan& plan, const OuterContext& context)
      : rate_(plan.rate / plan.period), centre_(context.master, context.state, context.beside) {}

  void begin(const tensor::Arena& weights, UpdateRange place) override { begin_as(weights, place, centre_); }
  void update(const tensor::Arena& sum, UpdateRange place, double weight, const StepClock&) override {
    for_master(sum, [&](auto zero) {
      using T = decltype(zero);
      auto s = sum.values<T>({place.sum, place.weights.size});
      auto w = centre_.values<T>({place.state, place.weights.size});
      const T share = T(1 / weight);
      for (std::size_t i = 0; i < s.size(); ++i) {
        w[i] += T(rate_) * (s[i] * share - w[i]);
        s[i] = w[i];
      }
    });
  }
  const tensor::Arena* centre() const override { return &centre_; }
  std::vector<std::pair<std::string, tensor::Arena*>> state() override { return {{"centre", &centre_}}; }

 private:
  double rate_;
  tensor::Arena centre_;
};

constexpr plan::LevelRule kRules[] = {
    {"exchange.levels", "rule accumulated needs warmup_steps 0, since it divides by the period",
     [](const plan::LegalityInput&, const plan::LevelPlan& level) {
       return plan::unless(level.warmup_steps == 0, fmt::format("warmup_steps is {}", level.warmup_steps));
     }},
};

}  // namespace

OuterRow accumulated() {
  return {.name = "accumulated",
          .sentence = "a period's way counts as one step (ADAG): rate is the step",
          .make = [](const plan::LevelPlan& plan, const OuterContext& context) -> std::unique_ptr<OuterRule> {
            return std::make_unique<Accumulated>(plan, context);
          },
          .state_arenas = 1,
          .replicas = "accumulated",
          .rules = kRules};
}

}  // namespace taxon::optim
