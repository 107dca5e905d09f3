#pragma once

#include <cstdint>
#include <vector>

namespace taxon::report {

/// Quantiles of positive numbers in fixed memory: logarithmic bins 0.5 % wide, exact minimum and maximum.
class Quantiles {
 public:
  /// What is no number is left out.
  void add(double value);
  /// The value below which a share `q` of the numbers lies, within 0.5 %; 0 if there are none.
  double at(double q) const;
  std::int64_t count() const { return count_; }
  double sum() const { return sum_; }

 private:
  std::vector<std::int64_t> bins_;
  std::int64_t count_ = 0;
  double sum_ = 0, least_ = 0, most_ = 0;
};

}  // namespace taxon::report
