#include "optim/outer/masters.h"

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

OuterRow average() {
  return {.name = "average",
          .sentence = "the mean of the replicas",
          .make = [](const plan::LevelPlan&, const OuterContext&) -> std::unique_ptr<OuterRule> {
            return std::make_unique<Average>();
          },
          .state_arenas = 0,
          .replicas = "averaged",
          .keeps_centre = false,
          .conserves = OuterRow::Conserves::Replicas};
}

}  // namespace taxon::optim
