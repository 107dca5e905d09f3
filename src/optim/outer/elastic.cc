#include <fmt/format.h>

#include "optim/outer/masters.h"
#include "plan/legality.h"

namespace taxon::optim {
namespace {

/// Elastic averaging (EASGD: Zhang, Choromanska, LeCun, NeurIPS 2015). c: the centre, x_i: replicas. Both
/// sides use the same difference, so that sum_i x_i + c does not change in a meeting:
///   x_i -= alpha (x_i - c),  c += alpha sum_i (x_i - c),  alpha = beta / n.
/// The owner answers with the centre of before; plan's rate is beta.
class Elastic final : public OuterRule {
 public:
  Elastic(const plan::LevelPlan& plan, const OuterContext& context)
      : alpha_(plan.rate / context.members), centre_(context.master, context.state, context.beside) {}

  void begin(const tensor::Arena& weights, UpdateRange place) override { begin_as(weights, place, centre_); }
  void update(const tensor::Arena& sum, UpdateRange place, double weight, const StepClock&) override {
    for_master(sum, [&](auto zero) {
      using T = decltype(zero);
      auto s = sum.values<T>({place.sum, place.weights.size});
      auto c = centre_.values<T>({place.state, place.weights.size});
      for (std::size_t i = 0; i < s.size(); ++i) {
        T before = c[i];
        c[i] += T(alpha_) * (s[i] - T(weight) * before);
        s[i] = before;
      }
    });
  }
  void adopt(const tensor::Arena& replica, const tensor::Arena& answer, UpdateRange place) override {
    for_master(replica, [&](auto zero) {
      using T = decltype(zero);
      auto x = replica.values<T>(place.weights);
      auto c = answer.values<T>({place.sum, place.weights.size});
      for (std::size_t i = 0; i < x.size(); ++i) x[i] -= T(alpha_) * (x[i] - c[i]);
    });
  }
  int adopt_touches() const override { return 3; }
  Shown shown() const override { return Shown::Centre; }
  const tensor::Arena* centre() const override { return &centre_; }
  std::vector<std::pair<std::string, tensor::Arena*>> state() override { return {{"centre", &centre_}}; }

 private:
  double alpha_;
  tensor::Arena centre_;
};

constexpr plan::LevelRule kRules[] = {
    {"exchange.levels", "rule elastic needs delay 0 and mixing 0, since both sides move by one difference",
     [](const plan::LegalityInput&, const plan::LevelPlan& level) {
       return plan::unless(level.delay == 0 && level.mixing == 0,
                           fmt::format("delay is {}, mixing is {}", level.delay, level.mixing));
     }},
    {"exchange.levels", "rule elastic needs late as_others, since both sides move by one difference",
     [](const plan::LegalityInput&, const plan::LevelPlan& level) {
       return plan::unless(level.late == plan::LevelPlan().late, "late is " + level.late);
     }},
    {"exchange.levels",
     "rule elastic needs codec none, since replicas keep a share of what they did not send",
     [](const plan::LegalityInput&, const plan::LevelPlan& level) {
       return plan::unless(level.codec.name == "none", "codec is " + level.codec.name);
     }},
};

}  // namespace

OuterRow elastic() {
  return {
      .name = "elastic",
      .sentence = "elastic averaging with a centre (EASGD): rate beta; each replica moves by beta / replicas",
      .make = [](const plan::LevelPlan& plan, const OuterContext& context) -> std::unique_ptr<OuterRule> {
        return std::make_unique<Elastic>(plan, context);
      },
      .state_arenas = 1,
      .replicas = "elastic centre",
      .conserves = OuterRow::Conserves::ReplicasAndCentre,
      .rules = kRules};
}

}  // namespace taxon::optim
