#include <cmath>

#include "optim/staleness/served.h"

namespace taxon::optim {
namespace {

// Delay compensation (DC-ASGD: Zheng et al., ICML 2017, algorithm 2). g: the worker's mean gradient, of the
// weights w_bak that it was served; w: the weights now:
//   g := g + lambda g g (w - w_bak),
// elementwise. The adaptive form has lambda / sqrt(ms + 1e-7) in lambda's place, where ms = 0.95 ms + 0.05 g
// g is the owner's, over all workers.
constexpr double kMeanSquareDecay = 0.95, kFloor = 1e-7;

class Compensated final : public KeepsServed {
 public:
  Compensated(const plan::LevelPlan& plan, const LateContext& context)
      : KeepsServed(context), lambda_(plan.compensation) {}
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
        lambda_(plan.compensation),
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

std::unique_ptr<StalenessRule> make_compensated(const plan::LevelPlan& plan, const LateContext& context) {
  return std::make_unique<Compensated>(plan, context);
}
std::unique_ptr<StalenessRule> make_compensated_adaptively(const plan::LevelPlan& plan,
                                                           const LateContext& context) {
  return std::make_unique<CompensatedAdaptively>(plan, context);
}

}  // namespace taxon::optim
