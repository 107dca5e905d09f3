#include "data/sample_shape.h"

#include <fmt/format.h>

namespace taxon::data {
namespace {

std::int64_t product(const std::vector<std::int64_t>& extents) {
  std::int64_t n = 1;
  for (std::int64_t extent : extents) n *= extent;
  return n;
}

}  // namespace

std::int64_t SampleShape::elements() const { return product(input); }
std::int64_t SampleShape::targets() const { return product(target); }

std::string describe(const SampleShape& shape) {
  const std::string inputs =
      fmt::format("inputs {} [{}]", to_string(shape.input_type), fmt::join(shape.input, ", "));
  return shape.target.empty()
             ? inputs + " and one int64 label"
             : fmt::format("{} and targets int64 [{}]", inputs, fmt::join(shape.target, ", "));
}

}  // namespace taxon::data
