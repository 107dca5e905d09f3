#include <cmath>

#include "optim/flat.h"
#include "optim/rule.h"

namespace taxon::optim {
namespace {

struct AdagradOptions {
  double epsilon = 1e-10;
};
template <plan::Like<AdagradOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(plan::Field{.key = "epsilon",
                    .sentence = "Added to the root of the sum of squares.",
                    .min = 0,
                    .above_min = true},
        o.epsilon);
}

// s: sum of the squares of all gradients so far, with decay.
template <class T>
struct AdagradStep {
  static TAXON_INLINE void run(T* __restrict w, const T* __restrict gradient, T* __restrict s, std::size_t n,
                               T rate, T scale, T decay, T epsilon) {
    for (std::size_t i = 0; i < n; ++i) {
      const T g = gradient[i] * scale + decay * w[i];
      const T sum = s[i] + g * g;
      s[i] = sum;
      w[i] -= rate * g / (std::sqrt(sum) + epsilon);
    }
  }
};

class Adagrad final : public Rule {
 public:
  Adagrad(const plan::OptimiserPlan& plan, const RuleContext& context)
      : epsilon_(plan.options.read<AdagradOptions>().epsilon),
        decay_(plan.weight_decay),
        decayed_(context.decayed),
        isa_(context.isa),
        squares_(context.master, context.state, context.beside) {}

  void update(const tensor::Arena& weights, const tensor::Arena& sum, UpdateRange place,
              const StepClock& clock) override {
    dispatch(weights.type(), [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::is_floating_point_v<T>)
        for_pieces(place.weights, decayed_, [&](Range piece, bool decayed) {
          UpdateRange at = place.of(piece);
          run_on<AdagradStep<T>>(isa_, weights.values<T>(piece).data(),
                                 sum.values<T>({at.sum, piece.size}).data(),
                                 squares_.values<T>({at.state, piece.size}).data(), piece.size, T(clock.rate),
                                 T(clock.gradient_scale), T(decay_of(decay_, decayed)), T(epsilon_));
        });
    });
  }
  std::vector<std::pair<std::string, tensor::Arena*>> state() override {
    return {{"sum_of_squares", &squares_}};
  }

 private:
  double epsilon_, decay_;
  std::vector<Range> decayed_;
  Isa isa_;
  tensor::Arena squares_;
};

}  // namespace

/// Duchi, Hazan and Singer, JMLR 12 (2011), diagonal; the form of PyTorch's. DistBelief's servers have it.
RuleRow adagrad() {
  return {.name = "adagrad",
          .make = [](const plan::OptimiserPlan& plan, const RuleContext& context) -> std::unique_ptr<Rule> {
            return std::make_unique<Adagrad>(plan, context);
          },
          .state_arenas = 1,
          .sentence = "SGD, each weight's rate divided by the root of its gradients' squares (Adagrad)",
          .options = plan::option_keys<AdagradOptions>};
}

}  // namespace taxon::optim
