#include <cmath>

#include "optim/flat.h"
#include "optim/rule.h"

namespace taxon::optim {
namespace {

/// What one step's bias correction and decay come down to, per element.
template <class T>
struct AdamStep {
  T scale, beta1, beta2, epsilon;
  T rest1, rest2;  // 1 - beta, which float32 arithmetic on a beta near 1 would get wrong in the fifth digit
  T keep;          // 1 - rate * decay
  T size;          // rate / (1 - beta1^t)
  T root_correction;  // 1 / sqrt(1 - beta2^t)
};

// Loshchilov and Hutter, "Decoupled weight decay regularization", arXiv 1711.05101, algorithm 2. m, v: first
// and second moment.
template <class T>
void step_adamw(T* __restrict w, const T* __restrict gradient, T* __restrict m, T* __restrict v,
                std::size_t n, AdamStep<T> s) {
  for (std::size_t i = 0; i < n; ++i) {
    T g = gradient[i] * s.scale;
    T first = s.beta1 * m[i] + s.rest1 * g;
    T second = s.beta2 * v[i] + s.rest2 * g * g;
    m[i] = first;
    v[i] = second;
    w[i] = w[i] * s.keep - s.size * first / (std::sqrt(second) * s.root_correction + s.epsilon);
  }
}

/// After the second moment was frozen: the first moments are there already.
template <class T>
void step_frozen(T* __restrict w, const T* __restrict first, T* __restrict m, const T* __restrict v,
                 std::size_t n, AdamStep<T> s) {
  for (std::size_t i = 0; i < n; ++i) {
    m[i] = first[i];
    w[i] = w[i] * s.keep - s.size * first[i] / (std::sqrt(v[i]) * s.root_correction + s.epsilon);
  }
}

/// With freeze_steps: Tang et al., "1-bit Adam", ICML 2021. First moments are linear in gradients, and so
/// what members hand in, each its gradient's part and a share of the moment that all have, adds up to the
/// moment.
class AdamW final : public Rule {
 public:
  AdamW(const plan::OptimiserPlan& plan, const RuleContext& context)
      : plan_(plan),
        decayed_(context.decayed),
        first_(context.master, context.state, context.beside),
        second_(context.master, context.state, context.beside) {}

  void update(const tensor::Arena& weights, const tensor::Arena& sum, UpdateRange place,
              const StepClock& clock) override {
    const bool frozen = contributes(clock);
    auto t = static_cast<double>(clock.step + 1);
    double correction1 = 1 - std::pow(plan_.beta1, t);
    double correction2 = 1 - std::pow(plan_.beta2, frozen ? static_cast<double>(plan_.freeze_steps) : t);
    dispatch(weights.type(), [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::is_floating_point_v<T>)
        for_pieces(place.weights, decayed_, [&](Range piece, bool decayed) {
          AdamStep<T> step{T(clock.gradient_scale),
                           T(plan_.beta1),
                           T(plan_.beta2),
                           T(plan_.epsilon),
                           T(1 - plan_.beta1),
                           T(1 - plan_.beta2),
                           T(1 - clock.rate * decay_of(plan_.weight_decay, decayed)),
                           T(clock.rate / correction1),
                           T(1 / std::sqrt(correction2))};
          UpdateRange at = place.of(piece);
          T* w = weights.values<T>(piece).data();
          const T* handed_in = sum.values<T>({at.sum, piece.size}).data();
          T* m = first_.values<T>({at.state, piece.size}).data();
          T* v = second_.values<T>({at.state, piece.size}).data();
          if (frozen)
            step_frozen<T>(w, handed_in, m, v, piece.size, step);
          else
            step_adamw(w, handed_in, m, v, piece.size, step);
        });
    });
  }
  bool contributes(const StepClock& clock) const override {
    return plan_.freeze_steps > 0 && clock.step >= plan_.freeze_steps;
  }
  void contribute(const tensor::Arena& gradient, UpdateRange place, double share) override {
    dispatch(gradient.type(), [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::is_floating_point_v<T>) {
        auto g = gradient.values<T>({place.sum, place.weights.size});
        auto m = first_.values<T>({place.state, place.weights.size});
        const T old = T(plan_.beta1 * share), fresh = T(1 - plan_.beta1);
        for (std::size_t i = 0; i < g.size(); ++i) g[i] = old * m[i] + fresh * g[i];
      }
    });
  }
  std::vector<std::pair<std::string, tensor::Arena*>> state() override {
    return {{"first_moment", &first_}, {"second_moment", &second_}};
  }

 private:
  plan::OptimiserPlan plan_;
  std::vector<Range> decayed_;
  tensor::Arena first_, second_;
};

}  // namespace

/// Loshchilov and Hutter, arXiv 1711.05101; bias-corrected.
RuleRow adamw() {
  return {.name = "adamw",
          .make = [](const plan::OptimiserPlan& plan, const RuleContext& context) -> std::unique_ptr<Rule> {
            return std::make_unique<AdamW>(plan, context);
          },
          .state_arenas = 2,
          .sentence = "Adam with decoupled weight decay",
          .is_adaptive = true};
}

}  // namespace taxon::optim
