#include <cmath>

#include "optim/staleness/served.h"

namespace taxon::optim {
namespace {

struct CompensatedOptions {
  double compensation = 0.04;
};
template <plan::Like<CompensatedOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(plan::Field{.key = "compensation",
                    .sentence = "lambda, of which DC-ASGD has 0.04; about 2 where it is adaptive.",
                    .min = 0,
                    .max = 1e6},
        o.compensation);
}

// Delay compensation (DC-ASGD: Zheng et al., ICML 2017, algorithm 2). g: the worker's mean gradient, of the
// weights w_bak that it was served; w: the weights now:
//   g := g + lambda g g (w - w_bak),
// elementwise. The adaptive form has lambda / sqrt(ms + 1e-7) in lambda's place, where ms = 0.95 ms + 0.05 g
// g is the owner's, over all workers.
constexpr double kMeanSquareDecay = 0.95, kFloor = 1e-7;

class Compensated final : public KeepsServed {
 public:
  Compensated(const plan::LevelPlan& plan, const LateContext& context)
      : KeepsServed(context), lambda_(plan.options.read<CompensatedOptions>().compensation) {}
  void correct(const tensor::Arena& handed_in, const tensor::Arena& now, UpdateRange place,
               const Lateness& lateness) override {
    if (lateness.share <= 0) return;  // no samples, no gradient
    for_master(handed_in, [&](auto zero) {
      using T = decltype(zero);
      auto c = handed_in.values<T>({place.sum, place.weights.size});
      auto w = now.values<T>(place.weights);
      auto bak = of<T>(lateness.worker, place);
      // c is share times g, and so is what it becomes.
      const T lambda = T(lambda_ / lateness.share);
      for (std::size_t i = 0; i < c.size(); ++i) c[i] += lambda * c[i] * c[i] * (w[i] - bak[i]);
    });
  }

 private:
  double lambda_;
};

class CompensatedAdaptively final : public KeepsServed {
 public:
  CompensatedAdaptively(const plan::LevelPlan& plan, const LateContext& context)
      : KeepsServed(context),
        lambda_(plan.options.read<CompensatedOptions>().compensation),
        mean_square_(context.type, context.state, context.beside) {}
  void correct(const tensor::Arena& handed_in, const tensor::Arena& now, UpdateRange place,
               const Lateness& lateness) override {
    if (lateness.share <= 0) return;
    for_master(handed_in, [&](auto zero) {
      using T = decltype(zero);
      auto c = handed_in.values<T>({place.sum, place.weights.size});
      auto w = now.values<T>(place.weights);
      auto bak = of<T>(lateness.worker, place);
      auto ms = mean_square_.values<T>({place.state, place.weights.size});
      const T share = T(lateness.share);
      for (std::size_t i = 0; i < c.size(); ++i) {
        const T g = c[i] / share;
        ms[i] = T(kMeanSquareDecay) * ms[i] + T(1 - kMeanSquareDecay) * g * g;
        const T lambda = T(lambda_) / std::sqrt(ms[i] + T(kFloor));
        c[i] += share * lambda * g * g * (w[i] - bak[i]);
      }
    });
  }
  std::vector<std::pair<std::string, tensor::Arena*>> state() override {
    auto state = KeepsServed::state();
    state.emplace_back("mean square", &mean_square_);
    return state;
  }

 private:
  double lambda_;
  tensor::Arena mean_square_;
};

}  // namespace

LateRow compensated() {
  return {
      .name = "compensated",
      .sentence = "a gradient is corrected for the way of the weights since (DC-ASGD)",
      .corrects = LateRow::Corrects::Gradients,
      .keeps_served = true,
      .make = [](const plan::LevelPlan& plan, const LateContext& context) -> std::unique_ptr<StalenessRule> {
        return std::make_unique<Compensated>(plan, context);
      },
      .scheduling = "delay compensated",
      .options = plan::option_keys<CompensatedOptions>};
}

LateRow compensated_adaptively() {
  return {
      .name = "compensated_adaptively",
      .sentence = "the same, by less where gradients are large (DC-ASGD-a)",
      .corrects = LateRow::Corrects::Gradients,
      .keeps_served = true,
      .make = [](const plan::LevelPlan& plan, const LateContext& context) -> std::unique_ptr<StalenessRule> {
        return std::make_unique<CompensatedAdaptively>(plan, context);
      },
      .scheduling = "delay compensated adaptively",
      .options = plan::option_keys<CompensatedOptions>};
}

}  // namespace taxon::optim
