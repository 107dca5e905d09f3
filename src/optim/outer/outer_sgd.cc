#include "optim/outer/anchored.h"
#include "plan/legality.h"

namespace taxon::optim {
namespace {

/// An SGD over rounds whose gradient is W - mean, in the forms of PyTorch's: DiLoCo's outer optimiser
/// (Douillard et al., arXiv 2311.08105).
struct OuterSgd {
  OuterSgd(double rate, double momentum, double) : rate(rate), mu(momentum) {}
  double rate, mu;
};

struct Polyak : OuterSgd {
  using OuterSgd::OuterSgd;
  template <class T>
  T step(T mean, T& w, T& v) const {
    v = T(mu) * v + (w - mean);
    return w -= T(rate) * v;
  }
};

struct Nesterov : OuterSgd {
  using OuterSgd::OuterSgd;
  template <class T>
  T step(T mean, T& w, T& v) const {
    T gradient = w - mean;
    v = T(mu) * v + gradient;
    return w -= T(rate) * (gradient + T(mu) * v);
  }
};

/// Slow momentum (Wang et al., arXiv 1910.00643): the velocity is in units of gradients, gamma being the
/// inner learning rate of the round's last step.
struct SlowMo : OuterSgd {
  SlowMo(double alpha, double beta, double gamma) : OuterSgd(alpha, beta, gamma), gamma(gamma) {}
  double gamma;
  template <class T>
  T step(T mean, T& w, T& u) const {
    // A schedule may end at 0, where no replica moved either.
    u = T(mu) * u + (gamma > 0 ? (w - mean) / T(gamma) : T(0));
    return w -= T(rate * gamma) * u;
  }
};

constexpr plan::LevelRule kSlowMoRules[] = {
    {"exchange.levels",
     "rule slowmo needs a topology without servers: gamma is the learning rate of the round's last step, "
     "and a server knows no steps of replicas",
     [](const plan::LegalityInput& c, const plan::LevelPlan& level) {
       return plan::unless(c.known.sum_at(level) != plan::SumAt::Servers, "topology is " + level.topology);
     }},
};

}  // namespace

OuterRow outer_momentum() {
  return {.name = "outer_momentum",
          .sentence = "SGD with momentum over the rounds",
          .make = [](const plan::LevelPlan& plan, const OuterContext& context) -> std::unique_ptr<OuterRule> {
            return std::make_unique<Anchored<Polyak>>(plan, context);
          },
          .state_arenas = 2,
          .replicas = "outer momentum"};
}

OuterRow outer_nesterov() {
  return {.name = "outer_nesterov",
          .sentence = "SGD with Nesterov momentum over the rounds (DiLoCo)",
          .make = [](const plan::LevelPlan& plan, const OuterContext& context) -> std::unique_ptr<OuterRule> {
            return std::make_unique<Anchored<Nesterov>>(plan, context);
          },
          .state_arenas = 2,
          .replicas = "outer Nesterov"};
}

OuterRow slowmo() {
  return {.name = "slowmo",
          .sentence = "slow momentum: rate alpha, momentum beta",
          .make = [](const plan::LevelPlan& plan, const OuterContext& context) -> std::unique_ptr<OuterRule> {
            return std::make_unique<Anchored<SlowMo>>(plan, context);
          },
          .state_arenas = 2,
          .replicas = "slow momentum",
          .rules = kSlowMoRules};
}

}  // namespace taxon::optim
