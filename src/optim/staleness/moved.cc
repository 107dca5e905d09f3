#include "optim/staleness/served.h"

namespace taxon::optim {
namespace {

/// A replica that set out from what it was served and came to x counts as if it had set out from what the
/// owner has now: x := now + (x - served). Downpour's and ADAG's workers hand in such differences.
class Moved final : public KeepsServed {
 public:
  using KeepsServed::KeepsServed;
  void correct(const tensor::Arena& handed_in, const tensor::Arena& now, UpdateRange place,
               const Lateness& lateness) override {
    for_master(handed_in, [&](auto zero) {
      using T = decltype(zero);
      auto x = handed_in.values<T>({place.sum, place.weights.size});
      auto w = now.values<T>(place.weights);
      auto from = of<T>(lateness.worker, place);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = w[i] + (x[i] - from[i]);
    });
  }
};

}  // namespace

std::unique_ptr<StalenessRule> make_moved(const plan::LevelPlan&, const LateContext& context) {
  return std::make_unique<Moved>(context);
}

}  // namespace taxon::optim
