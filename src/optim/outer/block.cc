#include "optim/outer/anchored.h"

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

}  // namespace

std::unique_ptr<OuterRule> make_block(const plan::LevelPlan& plan, const OuterContext& context) {
  return std::make_unique<Anchored<Classical>>(plan, context);
}
std::unique_ptr<OuterRule> make_block_nesterov(const plan::LevelPlan& plan, const OuterContext& context) {
  return std::make_unique<Anchored<Nesterov>>(plan, context);
}

}  // namespace taxon::optim
