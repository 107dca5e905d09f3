#pragma once

#include <algorithm>

#include "optim/outer/masters.h"
#include "optim/staleness.h"

namespace taxon::optim {

/// A rule that keeps what every worker was given last: as much memory for each as the owner owns.
class KeepsServed : public StalenessRule {
 public:
  explicit KeepsServed(const LateContext& context) {
    for (int worker = 0; worker < context.workers; ++worker)
      served_.emplace_back(context.type, context.state, context.beside);
  }
  void served(int worker, const tensor::Arena& values, UpdateRange place) final {
    for_master(values, [&](auto zero) {
      using T = decltype(zero);
      auto from = values.values<T>(place.weights);
      std::copy(from.begin(), from.end(), of<T>(worker, place).begin());
    });
  }
  std::vector<std::pair<std::string, tensor::Arena*>> state() override {
    std::vector<std::pair<std::string, tensor::Arena*>> state;
    for (std::size_t worker = 0; worker < served_.size(); ++worker)
      state.emplace_back("served to " + std::to_string(worker), &served_[worker]);
    return state;
  }

 protected:
  template <class T>
  std::span<T> of(int worker, UpdateRange place) {
    return served_[static_cast<std::size_t>(worker)].values<T>({place.state, place.weights.size});
  }

 private:
  std::vector<tensor::Arena> served_;  // by worker
};

}  // namespace taxon::optim
