#include "planner/measured.h"

#include <fmt/format.h>

#include <algorithm>

#include "launch/core_pressure.h"
#include "report/summary.h"

namespace taxon::planner {

Measured& Measured::operator+=(const Measured& other) {
  median += other.median;
  low += other.low;
  high += other.high;
  return *this;
}

Measured measured(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const std::size_t last = values.size() - 1;
  return {values[values.size() / 2], values[last / 4], values[last - last / 4]};
}

std::string describe_spread(double spread) {
  return fmt::format("± {:.0f} %{}", spread * 100, spread > kLargestSpread ? " ?" : "");
}

std::string busy_warning(std::optional<double> queued_share) {
  if (!queued_share || *queued_share < report::CoreUse::kBusyShare) return {};
  return fmt::format(
      "the cores were busy: {} while this was measured, so figures of time are not to be trusted; measure "
      "again when nothing else runs\n",
      launch::describe_pressure(*queued_share));
}

}  // namespace taxon::planner
