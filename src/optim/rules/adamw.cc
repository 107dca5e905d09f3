#include <fmt/format.h>

#include <cmath>

#include "optim/flat.h"
#include "optim/rule.h"
#include "plan/legality.h"

namespace taxon::optim {
namespace {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  std::int64_t freeze_steps = 0;
};
template <plan::Like<AdamWOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(
      plan::Field{
          .key = "beta1", .sentence = "Decay of the first moment.", .min = 0, .max = 1, .below_max = true},
      o.beta1);
  visit(
      plan::Field{
          .key = "beta2", .sentence = "Decay of the second moment.", .min = 0, .max = 1, .below_max = true},
      o.beta2);
  visit(plan::Field{.key = "epsilon",
                    .sentence = "Added to the root of the second moment.",
                    .min = 0,
                    .above_min = true},
        o.epsilon);
  visit(plan::Field{.key = "freeze_steps",
                    .sentence = "After so many steps the second moment stays as it is, and what workers hand "
                                "in is their first moments (1-bit Adam); 0: never.",
                    .min = 0,
                    .max = 1e12},
        o.freeze_steps);
}

AdamWOptions options_of(const plan::LegalityInput& c) {
  return c.plan.optimiser.options.read<AdamWOptions>();
}

plan::Violation variance_right(const plan::LegalityInput& c) {
  const std::int64_t freeze = options_of(c).freeze_steps;
  for (const plan::LevelPlan& level : c.plan.exchange.levels) {
    const plan::Catalogue::Codec* codec = c.known.find_codec(level.codec.candidate());
    const bool biased = level.rule == "sum" && codec && codec->biased && !level.codec.force;
    if (biased && !(freeze > 0 && level.codec.dense_steps >= freeze))
      return fmt::format("codec is {}, freeze_steps is {}, dense_steps is {}", codec->name, freeze,
                         level.codec.dense_steps);
  }
  return {};
}

plan::Violation moments_alike(const plan::LegalityInput& c) {
  if (options_of(c).freeze_steps == 0) return {};
  const plan::ExchangePlan& exchange = c.plan.exchange;
  for (const plan::LevelPlan& level : exchange.levels)
    if (c.known.sum_at(level) != plan::SumAt::Everyone || level.rule != "sum")
      return fmt::format("topology is {}, rule is {}", level.topology, level.rule);
  return plan::unless(c.plan.optimiser.clip_norm == 0 && exchange.delay == 0 &&
                          exchange.gradients == plan::GradientMemory::Whole,
                      fmt::format("clip_norm is {}, delay is {}, gradients is {}", c.plan.optimiser.clip_norm,
                                  exchange.delay, exchange.gradients));
}

plan::Violation moments_summed(const plan::LegalityInput& c) {
  const std::int64_t freeze = options_of(c).freeze_steps;
  for (const plan::LevelPlan& level : c.plan.exchange.levels)
    if (freeze > 0 && level.factors != plan::FactorUse::None) return fmt::format("it is {}", freeze);
  return {};
}

constexpr plan::PlanRule kRules[] = {
    {"optimiser.rule",
     "adamw divides by a variance that a biased codec falsifies; let it stay after freeze_steps, and the "
     "codec begin no earlier, with as many dense_steps; or use sgd or momentum, or say force: true",
     variance_right},
    {"optimiser.freeze_steps",
     "needs levels of topology all_reduce with rule sum, clip_norm 0, exchange.delay 0 and "
     "exchange.gradients whole, since what travels are first moments that all have alike",
     moments_alike},
    {"optimiser.freeze_steps",
     "must be 0 where gradients travel as factors, since what travels after these are first moments",
     moments_summed},
};

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
struct AdamWStep {
  static TAXON_INLINE void run(T* __restrict w, const T* __restrict gradient, T* __restrict m,
                               T* __restrict v, std::size_t n, AdamStep<T> s) {
    for (std::size_t i = 0; i < n; ++i) {
      T g = gradient[i] * s.scale;
      T first = s.beta1 * m[i] + s.rest1 * g;
      T second = s.beta2 * v[i] + s.rest2 * g * g;
      m[i] = first;
      v[i] = second;
      w[i] = w[i] * s.keep - s.size * first / (std::sqrt(second) * s.root_correction + s.epsilon);
    }
  }
};

/// After the second moment was frozen: the first moments are there already.
template <class T>
struct FrozenStep {
  static TAXON_INLINE void run(T* __restrict w, const T* __restrict first, T* __restrict m,
                               const T* __restrict v, std::size_t n, AdamStep<T> s) {
    for (std::size_t i = 0; i < n; ++i) {
      m[i] = first[i];
      w[i] = w[i] * s.keep - s.size * first[i] / (std::sqrt(v[i]) * s.root_correction + s.epsilon);
    }
  }
};

/// With freeze_steps: Tang et al., "1-bit Adam", ICML 2021. First moments are linear in gradients, and so
/// what members hand in, each its gradient's part and a share of the moment that all have, adds up to the
/// moment.
class AdamW final : public Rule {
 public:
  AdamW(const plan::OptimiserPlan& plan, const RuleContext& context)
      : options_(plan.options.read<AdamWOptions>()),
        decay_(plan.weight_decay),
        decayed_(context.decayed),
        isa_(context.isa),
        first_(context.master, context.state, context.beside),
        second_(context.master, context.state, context.beside) {}

  void update(const tensor::Arena& weights, const tensor::Arena& sum, UpdateRange place,
              const StepClock& clock) override {
    const bool frozen = contributes(clock);
    auto t = static_cast<double>(updates(clock, place.state) + 1);
    double correction1 = 1 - std::pow(options_.beta1, t);
    double correction2 =
        1 - std::pow(options_.beta2, frozen ? static_cast<double>(options_.freeze_steps) : t);
    dispatch(weights.type(), [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::is_floating_point_v<T>)
        for_pieces(place.weights, decayed_, [&](Range piece, bool decayed) {
          AdamStep<T> step{T(clock.gradient_scale),
                           T(options_.beta1),
                           T(options_.beta2),
                           T(options_.epsilon),
                           T(1 - options_.beta1),
                           T(1 - options_.beta2),
                           T(1 - clock.rate * decay_of(decay_, decayed)),
                           T(clock.rate / correction1),
                           T(1 / std::sqrt(correction2))};
          UpdateRange at = place.of(piece);
          T* w = weights.values<T>(piece).data();
          const T* handed_in = sum.values<T>({at.sum, piece.size}).data();
          T* m = first_.values<T>({at.state, piece.size}).data();
          T* v = second_.values<T>({at.state, piece.size}).data();
          if (frozen)
            run_on<FrozenStep<T>>(isa_, w, handed_in, m, v, piece.size, step);
          else
            run_on<AdamWStep<T>>(isa_, w, handed_in, m, v, piece.size, step);
        });
    });
  }
  bool contributes(const StepClock& clock) const override {
    return options_.freeze_steps > 0 && updates(clock, 0) >= options_.freeze_steps;
  }
  void contribute(const tensor::Arena& gradient, UpdateRange place, double share) override {
    dispatch(gradient.type(), [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::is_floating_point_v<T>) {
        auto g = gradient.values<T>({place.sum, place.weights.size});
        auto m = first_.values<T>({place.state, place.weights.size});
        const T old = T(options_.beta1 * share), fresh = T(1 - options_.beta1);
        for (std::size_t i = 0; i < g.size(); ++i) g[i] = old * m[i] + fresh * g[i];
      }
    });
  }
  std::vector<std::pair<std::string, tensor::Arena*>> state() override {
    return {{"first_moment", &first_}, {"second_moment", &second_}};
  }

 private:
  AdamWOptions options_;
  double decay_;
  std::vector<Range> decayed_;
  Isa isa_;
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
          .options = plan::option_keys<AdamWOptions>,
          .rules = kRules};
}

}  // namespace taxon::optim
