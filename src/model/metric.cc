#include "model/metric.h"

#include <limits>

namespace taxon::model {

double Scores::operator[](std::string_view name) const {
  for (const Metric& metric : metrics)
    if (metric.name == name) return value(metric);
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace taxon::model
