#include <fmt/format.h>

#include "optim/outer/anchored.h"
#include "plan/legality.h"

namespace taxon::optim {
namespace {

/// Blockwise model-update filtering (Chen and Huo, ICASSP 2016). W: the global model, W_g: where replicas
/// started the block, G = mean - W_g: the block's update, D: its filtered form with block momentum eta and
/// block learning rate zeta. The next block starts from W, or from where the momentum alone would carry it
/// (Nesterov).
struct Block {
  Block(double zeta, double eta, double) : zeta(zeta), eta(eta) {}
  double zeta, eta;
  template <class T>
  T filter(T mean, T start, T& w, T& d) const {
    d = T(eta) * d + T(zeta) * (mean - start);
    return w += d;
  }
};

struct Classical : Block {
  using Block::Block;
  template <class T>
  T step(T mean, T& w, T& d) const {
    return filter(mean, w, w, d);
  }
};

struct Nesterov : Block {
  using Block::Block;
  template <class T>
  T step(T mean, T& w, T& d) const {
    const T start = w + T(eta) * d;
    T global = filter(mean, start, w, d);
    return global + T(eta) * d;
  }
};

constexpr plan::LevelRule kStartRules[] = {
    {"exchange.levels",
     "rule block_nesterov needs late as_others and workers that keep step, since replicas must set out from "
     "where the "
     "momentum led the last block",
     [](const plan::LegalityInput& c, const plan::LevelPlan& level) {
       const plan::ConsistencyBounds bounds = c.known.sum_at(level) == plan::SumAt::Servers
                                                  ? c.known.bounds_of(level)
                                                  : plan::ConsistencyBounds();
       return plan::unless(level.late == plan::LevelPlan().late && bounds.in_step(),
                           fmt::format("late is {}, workers are {}", level.late, bounds.words));
     }},
};

}  // namespace

OuterRow block() {
  return {.name = "block",
          .sentence = "block momentum (BMUF): rate zeta, momentum eta",
          .make = [](const plan::LevelPlan& plan, const OuterContext& context) -> std::unique_ptr<OuterRule> {
            return std::make_unique<Anchored<Classical>>(plan, context);
          },
          .state_arenas = 2,
          .replicas = "block momentum"};
}

OuterRow block_nesterov() {
  return {.name = "block_nesterov",
          .sentence = "block momentum that looks ahead",
          .make = [](const plan::LevelPlan& plan, const OuterContext& context) -> std::unique_ptr<OuterRule> {
            return std::make_unique<Anchored<Nesterov>>(plan, context);
          },
          .state_arenas = 2,
          .replicas = "block Nesterov",
          .rules = kStartRules};
}

}  // namespace taxon::optim
