// A rule of one's own where replicas meet: every weight of the centre goes one rate towards the replicas'
// mean, however far that is, so that one bit for each weight would do on the way back.
#pragma once

#include <taxon/rule.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

class BySign final : public taxon::optim::OuterRule {
 public:
  using Arena = taxon::tensor::Arena;
  using Place = taxon::optim::UpdateRange;
  static std::unique_ptr<OuterRule> make(const taxon::plan::LevelPlan& level,
                                         const taxon::optim::OuterContext& context) {
    return std::make_unique<BySign>(level.rate, context);
  }
  BySign(double rate, const taxon::optim::OuterContext& context)
      : rate_(rate), centre_(context.master, context.state, context.beside) {}

  void begin(const Arena& weights, Place place) override {
    auto from = weights.values<double>(place.weights);
    std::copy(from.begin(), from.end(), centre_.values<double>({place.state, from.size()}).begin());
  }
  /// `sum` is of `weight` replicas, and becomes the answer.
  void update(const Arena& sum, Place place, double weight, const taxon::optim::StepClock&) override {
    auto x = sum.values<double>({place.sum, place.weights.size});
    auto c = centre_.values<double>({place.state, place.weights.size});
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double way = x[i] / weight - c[i];
      c[i] += way > 0 ? rate_ : way < 0 ? -rate_ : 0;
      x[i] = c[i];
    }
  }
  Shown shown() const override { return Shown::Centre; }
  const Arena* centre() const override { return &centre_; }
  std::vector<std::pair<std::string, Arena*>> state() override { return {{"centre", &centre_}}; }

 private:
  double rate_;
  Arena centre_;
};
