#include "report/quantiles.h"

#include <algorithm>
#include <cmath>

namespace taxon::report {
namespace {

constexpr double kSmallest = 1e-7, kRatio = 1.005;
constexpr int kBins = 8192;  // up to 1e-7 * 1.005^8192, beyond 10^10

int bin_of(double value) {
  if (value <= kSmallest) return 0;
  return 1 + static_cast<int>(std::min(kBins - 2.0, std::log(value / kSmallest) / std::log(kRatio)));
}

}  // namespace

void Quantiles::add(double value) {
  if (std::isnan(value)) return;
  if (bins_.empty()) bins_.assign(kBins, 0);
  least_ = count_ == 0 ? value : std::min(least_, value);
  most_ = count_ == 0 ? value : std::max(most_, value);
  ++bins_[static_cast<std::size_t>(bin_of(value))];
  ++count_;
  sum_ += value;
}

double Quantiles::at(double q) const {
  if (count_ == 0) return 0;
  auto wanted = static_cast<std::int64_t>(std::ceil(q * static_cast<double>(count_)));
  wanted = std::clamp<std::int64_t>(wanted, 1, count_);
  if (wanted == 1) return least_;
  if (wanted == count_) return most_;
  std::int64_t seen = 0;
  for (int bin = 0; bin < kBins; ++bin) {
    seen += bins_[static_cast<std::size_t>(bin)];
    // The middle of the bin, on the logarithmic scale.
    if (seen >= wanted) return std::clamp(kSmallest * std::pow(kRatio, bin - 0.5), least_, most_);
  }
  return most_;
}

}  // namespace taxon::report
