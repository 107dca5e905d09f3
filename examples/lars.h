// An update rule of one's own that sees whole tensors: LARS (You, Gitman and Ginsburg, "Large batch training
// of convolutional networks", arXiv 1708.03888, algorithm 1). Each tensor's rate is in proportion to how
// long its weights are beside their gradient, so that large batches may have a large rate.
#pragma once

#include <taxon/rule.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

struct LarsOptions {
  double trust = 0.001;
};
template <taxon::plan::Like<LarsOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(taxon::plan::Field{.key = "trust",
                           .sentence = "The change of a tensor beside its length, at rate 1.",
                           .min = 0,
                           .above_min = true},
        o.trust);
}

class Lars final : public taxon::optim::Rule {
 public:
  Lars(const taxon::plan::OptimiserPlan& plan, const taxon::optim::RuleContext& context)
      : trust_(plan.options.read<LarsOptions>().trust),
        momentum_(plan.momentum),
        decay_(plan.weight_decay),
        decayed_(context.decayed),
        tensors_(context.tensors),
        velocity_(context.master, context.state, context.beside) {}

  void update(const taxon::tensor::Arena& weights, const taxon::tensor::Arena& sum,
              taxon::optim::UpdateRange place, const taxon::optim::StepClock& clock) override {
    for (const taxon::Range& tensor : tensors_)
      if (tensor.begin >= place.weights.begin && tensor.end() <= place.weights.end())
        taxon::dispatch(weights.type(), [&](auto zero) {
          using T = decltype(zero);
          if constexpr (std::is_floating_point_v<T>) step<T>(weights, sum, place.of(tensor), clock);
        });
  }
  std::vector<std::pair<std::string, taxon::tensor::Arena*>> state() override {
    return {{"momentum", &velocity_}};
  }

 private:
  /// w: weights, g: gradient, v: velocity, beta: weight decay.
  ///   lambda = trust |w| / (|g| + beta |w|);  v = mu v + rate lambda (g + beta w);  w -= v
  template <class T>
  void step(const taxon::tensor::Arena& weights, const taxon::tensor::Arena& sum,
            taxon::optim::UpdateRange at, const taxon::optim::StepClock& clock) {
    const std::size_t n = at.weights.size;
    auto w = weights.values<T>(at.weights), g = sum.values<T>({at.sum, n});
    auto v = velocity_.values<T>({at.state, n});
    const bool decays = std::any_of(decayed_.begin(), decayed_.end(), [&](const taxon::Range& range) {
      return range.begin == at.weights.begin;
    });
    const double decay = decays ? decay_ : 0;
    double weight_square = 0, gradient_square = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double scaled = g[i] * clock.gradient_scale;
      weight_square += double(w[i]) * w[i];
      gradient_square += scaled * scaled;
    }
    const double length = std::sqrt(weight_square), below = std::sqrt(gradient_square) + decay * length;
    // What begins at zero has no length to be in proportion to.
    const double lambda = length > 0 && below > 0 ? trust_ * length / below : 1;
    for (std::size_t i = 0; i < n; ++i) {
      v[i] = T(momentum_ * v[i] + clock.rate * lambda * (g[i] * clock.gradient_scale + decay * w[i]));
      w[i] -= v[i];
    }
  }

  double trust_, momentum_, decay_;
  std::vector<taxon::Range> decayed_, tensors_;
  taxon::tensor::Arena velocity_;
};

inline taxon::optim::RuleRow lars() {
  return {.name = "lars",
          .make = [](const taxon::plan::OptimiserPlan& plan, const taxon::optim::RuleContext& context)
              -> std::unique_ptr<taxon::optim::Rule> { return std::make_unique<Lars>(plan, context); },
          .state_arenas = 1,
          .sentence = "each tensor's rate is in proportion to its weights' length beside its gradient's",
          .has_momentum = true,
          .by_tensor = true,
          .options = taxon::plan::option_keys<LarsOptions>};
}
