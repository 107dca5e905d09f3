#include "optim/outer/rows.h"

namespace taxon::optim {
namespace {

/// The mean of the replicas: model averaging (SparkNet: Moritz et al., arXiv 1511.06051), local SGD (Stich,
/// arXiv 1805.09767), and what gossip mixed.
class Average final : public OuterRule {
 public:
  void begin(const tensor::Arena&, UpdateRange) override {}
  void update(const tensor::Arena& sum, UpdateRange place, double weight, const StepClock&) override {
    if (weight == 1) return;
    for_master(sum, [&](auto zero) {
      using T = decltype(zero);
      const T share = T(1 / weight);
      for (T& value : sum.values<T>({place.sum, place.weights.size})) value *= share;
    });
  }
  int update_touches(double weight) const override { return weight == 1 ? 0 : 2; }
  std::vector<std::pair<std::string, tensor::Arena*>> state() override { return {}; }
};

}  // namespace

std::unique_ptr<OuterRule> make_average(const plan::LevelPlan&, const OuterContext&) {
  return std::make_unique<Average>();
}

}  // namespace taxon::optim
