#pragma once

#include <optional>
#include <string>
#include <vector>

namespace taxon::planner {

/// The same thing measured several times.
struct Measured {
  double median = 0;
  double low = 0, high = 0;  // the quartiles
  /// Half the distance of the quartiles, as a share of the median.
  double spread() const { return median > 0 ? (high - low) / 2 / median : 0; }
  Measured& operator+=(const Measured& other);
};
/// All zero for none.
Measured measured(std::vector<double> values);

/// Beyond this spread a figure is marked.
inline constexpr double kLargestSpread = 0.15;

/// "± 3 %", and "± 41 % ?" where it is too much to be trusted.
std::string describe_spread(double spread);

/// A line that says that what was measured while threads waited this share of their time for cores is not to
/// be trusted; empty: they got theirs, or nobody knows.
std::string busy_warning(std::optional<double> queued_share);

}  // namespace taxon::planner
