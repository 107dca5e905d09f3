#pragma once

#include "optim/outer/masters.h"

namespace taxon::optim {

/// A rule with a copy of the weights W at the owner and a velocity: what block momentum and outer optimisers
/// have in common. `Form::step(mean, w, v, answer)` is one element.
template <class Form>
class Anchored final : public OuterRule {
 public:
  Anchored(const plan::LevelPlan& plan, const OuterContext& context)
      : rate_(plan.rate),
        momentum_(plan.momentum),
        anchor_(context.master, context.state, context.beside),
        velocity_(context.master, context.state, context.beside) {}

  void begin(const tensor::Arena& weights, UpdateRange place) override { begin_as(weights, place, anchor_); }

  void update(const tensor::Arena& sum, UpdateRange place, double weight, const StepClock& clock) override {
    for_master(sum, [&](auto zero) {
      using T = decltype(zero);
      const std::size_t n = place.weights.size;
      T* s = sum.values<T>({place.sum, n}).data();
      T* w = anchor_.values<T>({place.state, n}).data();
      T* v = velocity_.values<T>({place.state, n}).data();
      const Form form(rate_, momentum_, clock.rate);
      const T share = T(1 / weight);
      for (std::size_t i = 0; i < n; ++i) s[i] = form.step(s[i] * share, w[i], v[i]);
    });
  }

  int update_touches(double) const override { return 6; }
  const tensor::Arena* centre() const override { return &anchor_; }
  std::vector<std::pair<std::string, tensor::Arena*>> state() override {
    return {{"anchor", &anchor_}, {"outer momentum", &velocity_}};
  }

 private:
  double rate_, momentum_;
  tensor::Arena anchor_, velocity_;
};

}  // namespace taxon::optim
