#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace taxon::test {

inline double norm(const std::vector<double>& values) {
  double squares = 0;
  for (double value : values) squares += value * value;
  return std::sqrt(squares);
}

/// |a - b| / |b|.
inline double relative_distance(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  std::vector<double> difference;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) difference.push_back(a[i] - b[i]);
  return norm(difference) / std::max(norm(b), 1e-300);
}

}  // namespace taxon::test
