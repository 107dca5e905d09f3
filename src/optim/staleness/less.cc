#include "optim/outer/masters.h"
#include "optim/staleness.h"

namespace taxon::optim {
namespace {

/// A gradient counts 1 / (1 + staleness) (DynSGD: Jiang et al., SIGMOD 2017; staleness-aware SGD: Zhang et
/// al., IJCAI 2016, divides by the staleness).
class Less final : public StalenessRule {
 public:
  void served(int, const tensor::Arena&, UpdateRange) override {}
  void correct(const tensor::Arena& handed_in, const tensor::Arena&, UpdateRange place,
               const Lateness& lateness) override {
    if (lateness.staleness <= 0) return;
    for_master(handed_in, [&](auto zero) {
      using T = decltype(zero);
      const T factor = T(1.0 / (1.0 + static_cast<double>(lateness.staleness)));
      for (T& value : handed_in.values<T>({place.sum, place.weights.size})) value *= factor;
    });
  }
  std::vector<std::pair<std::string, tensor::Arena*>> state() override { return {}; }
};

}  // namespace

/// DynSGD: Jiang et al., SIGMOD 2017.
LateRow less() {
  return {.name = "less",
          .sentence = "a gradient is divided by 1 + its staleness (DynSGD)",
          .corrects = LateRow::Corrects::Gradients,
          .keeps_served = false,
          .make = [](const plan::LevelPlan&, const LateContext&) -> std::unique_ptr<StalenessRule> {
            return std::make_unique<Less>();
          },
          .scheduling = "late ones count less"};
}

}  // namespace taxon::optim
