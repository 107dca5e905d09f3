#include "exchange/step_scope.h"

#include <cmath>

namespace taxon::exchange {

void StepScope::begin(int buckets) {
  terms_.assign(static_cast<std::size_t>(buckets), 0.0);
  missing_ = terms_.size();
  complete_ = std::make_unique<task::Event>(runtime_.executor(), runtime_.waits());
}

task::Task<double> StepScope::agree(int index, double squared_norm, std::string subject) {
  terms_[static_cast<std::size_t>(index)] = squared_norm;
  if (--missing_ == 0) {
    double sum = 0;
    for (double term : terms_) sum += term;
    norm_ = std::sqrt(sum);
    complete_->set();
  }
  auto all = complete_->wait("gradient norm", std::move(subject));
  co_await all;
  co_return norm_ > clip_norm_ ? clip_norm_ / norm_ : 1.0;
}

}  // namespace taxon::exchange
