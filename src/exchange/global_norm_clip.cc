#include "exchange/global_norm_clip.h"

#include <cmath>

namespace taxon::exchange {

void GlobalNormClip::begin(int buckets) {
  terms_.assign(static_cast<std::size_t>(buckets), 0.0);
  missing_ = terms_.size();
  complete_ = std::make_unique<task::Event>(runtime_.executor(), runtime_.pending());
}

bool GlobalNormClip::give(int index, double squared_norm) {
  terms_[static_cast<std::size_t>(index)] = squared_norm;
  return --missing_ == 0;
}

double GlobalNormClip::given() const {
  double sum = 0;
  for (double term : terms_) sum += term;
  return sum;
}

void GlobalNormClip::release(double total_squared_norm) {
  norm_ = std::sqrt(total_squared_norm);
  complete_->set();
}

task::Task<double> GlobalNormClip::factor(std::string subject) {
  auto all = complete_->wait("gradient norm", std::move(subject));
  co_await all;
  co_return norm_ > clip_norm_ ? clip_norm_ / norm_ : 1.0;
}

}  // namespace taxon::exchange
