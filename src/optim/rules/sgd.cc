#include <algorithm>

#include "optim/flat.h"
#include "optim/rule.h"

namespace taxon::optim {
namespace {

// The forms of PyTorch's SGD, without dampening. g: gradient with decay, v: velocity, mu: momentum, w:
// weight.
//   sgd       w -= rate * g
//   momentum  v = mu * v + g;  w -= rate * v            (Polyak 1964)
//   sign      w -= rate * sign(g)                       (signSGD: Bernstein et al., ICML 2018)
//   nesterov  v = mu * v + g;  w -= rate * (g + mu * v)  (Sutskever et al., ICML 2013)

/// Elements of one array that are written before those of the next. All threads have read the weights, so a
/// thread has to take back each of their lines, across the chip where cores share no cache. It waits for many
/// lines at once where it writes line after line of one array, and for few where stores to two take turns.
constexpr std::size_t kRun = 256;

template <class T>
struct PlainStep {
  static TAXON_INLINE void run(T* __restrict w, const T* __restrict gradient, std::size_t n, T rate, T scale,
                               T decay) {
    for (std::size_t i = 0; i < n; ++i) w[i] -= rate * (gradient[i] * scale + decay * w[i]);
  }
};

template <class T>
struct PolyakStep {
  static TAXON_INLINE void run(T* __restrict w, const T* __restrict gradient, T* __restrict v, std::size_t n,
                               T rate, T scale, T decay, T mu) {
    for (std::size_t begin = 0; begin < n; begin += kRun) {
      const std::size_t end = std::min(n, begin + kRun);
      for (std::size_t i = begin; i < end; ++i) v[i] = mu * v[i] + (gradient[i] * scale + decay * w[i]);
      for (std::size_t i = begin; i < end; ++i) w[i] -= rate * v[i];
    }
  }
};

template <class T>
struct NesterovStep {
  static TAXON_INLINE void run(T* __restrict w, const T* __restrict gradient, T* __restrict v, std::size_t n,
                               T rate, T scale, T decay, T mu) {
    const auto g = [=](std::size_t i) { return gradient[i] * scale + decay * w[i]; };
    for (std::size_t begin = 0; begin < n; begin += kRun) {
      const std::size_t end = std::min(n, begin + kRun);
      for (std::size_t i = begin; i < end; ++i) v[i] = mu * v[i] + g(i);
      for (std::size_t i = begin; i < end; ++i) w[i] -= rate * (g(i) + mu * v[i]);
    }
  }
};

/// Decay is taken off directly, or the gradient's sign would hide it.
template <class T>
struct SignStep {
  static TAXON_INLINE void run(T* __restrict w, const T* __restrict gradient, std::size_t n, T rate, T,
                               T decay) {
    for (std::size_t i = 0; i < n; ++i) {
      const T sign = T(gradient[i] > 0) - T(gradient[i] < 0);
      // What is not finite must be seen.
      w[i] -= rate * (gradient[i] - gradient[i] + sign + decay * w[i]);
    }
  }
};

/// Rules without a state.
enum class Plain { Gradient, Sign };

class Sgd final : public Rule {
 public:
  Sgd(const plan::OptimiserPlan& plan, const RuleContext& context, Plain form)
      : decay_(plan.weight_decay), decayed_(context.decayed), isa_(context.isa), form_(form) {}

  void update(const tensor::Arena& weights, const tensor::Arena& sum, UpdateRange place,
              const StepClock& clock) override {
    dispatch(weights.type(), [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::is_floating_point_v<T>) {
        for_pieces(place.weights, decayed_, [&](Range piece, bool decayed) {
          UpdateRange at = place.of(piece);
          const auto step = [&](auto kernel) {
            run_on<decltype(kernel)>(isa_, weights.values<T>(piece).data(),
                                     sum.values<T>({at.sum, piece.size}).data(), piece.size, T(clock.rate),
                                     T(clock.gradient_scale), T(decay_of(decay_, decayed)));
          };
          form_ == Plain::Gradient ? step(PlainStep<T>()) : step(SignStep<T>());
        });
      }
    });
  }
  std::vector<std::pair<std::string, tensor::Arena*>> state() override { return {}; }

 private:
  double decay_;
  std::vector<Range> decayed_;
  Isa isa_;
  Plain form_;
};

enum class Velocity { Polyak, Nesterov };

class Momentum final : public Rule {
 public:
  Momentum(const plan::OptimiserPlan& plan, const RuleContext& context, Velocity form)
      : mu_(plan.momentum),
        decay_(plan.weight_decay),
        decayed_(context.decayed),
        isa_(context.isa),
        form_(form),
        velocity_(context.master, context.state, context.beside) {}

  void update(const tensor::Arena& weights, const tensor::Arena& sum, UpdateRange place,
              const StepClock& clock) override {
    dispatch(weights.type(), [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::is_floating_point_v<T>) {
        for_pieces(place.weights, decayed_, [&](Range piece, bool decayed) {
          UpdateRange at = place.of(piece);
          const auto step = [&](auto kernel) {
            run_on<decltype(kernel)>(
                isa_, weights.values<T>(piece).data(), sum.values<T>({at.sum, piece.size}).data(),
                velocity_.values<T>({at.state, piece.size}).data(), piece.size, T(clock.rate),
                T(clock.gradient_scale), T(decay_of(decay_, decayed)), T(mu_));
          };
          form_ == Velocity::Polyak ? step(PolyakStep<T>()) : step(NesterovStep<T>());
        });
      }
    });
  }
  std::vector<std::pair<std::string, tensor::Arena*>> state() override { return {{"momentum", &velocity_}}; }

 private:
  double mu_, decay_;
  std::vector<Range> decayed_;
  Isa isa_;
  Velocity form_;
  tensor::Arena velocity_;
};

}  // namespace

// The forms of PyTorch's SGD: no dampening.
RuleRow sgd() {
  return {.name = "sgd",
          .make = [](const plan::OptimiserPlan& plan, const RuleContext& context) -> std::unique_ptr<Rule> {
            return std::make_unique<Sgd>(plan, context, Plain::Gradient);
          },
          .state_arenas = 0,
          .sentence = "stochastic gradient descent",
          .is_linear = true};
}

RuleRow sign() {
  return {.name = "sign",
          .make = [](const plan::OptimiserPlan& plan, const RuleContext& context) -> std::unique_ptr<Rule> {
            return std::make_unique<Sgd>(plan, context, Plain::Sign);
          },
          .state_arenas = 0,
          .sentence = "of gradients only signs count (signSGD)"};
}

RuleRow momentum() {
  return {.name = "momentum",
          .make = [](const plan::OptimiserPlan& plan, const RuleContext& context) -> std::unique_ptr<Rule> {
            return std::make_unique<Momentum>(plan, context, Velocity::Polyak);
          },
          .state_arenas = 1,
          .sentence = "SGD with momentum",
          .has_momentum = true};
}

RuleRow nesterov() {
  return {.name = "nesterov",
          .make = [](const plan::OptimiserPlan& plan, const RuleContext& context) -> std::unique_ptr<Rule> {
            return std::make_unique<Momentum>(plan, context, Velocity::Nesterov);
          },
          .state_arenas = 1,
          .sentence = "SGD with Nesterov's momentum",
          .has_momentum = true};
}

}  // namespace taxon::optim
