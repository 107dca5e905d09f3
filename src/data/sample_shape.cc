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

std::int64_t Part::elements() const { return product(extents); }

std::vector<Part> SampleShape::inputs() const {
  std::vector<Part> all = {{input, input_type}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::int64_t SampleShape::elements() const { return product(input); }
std::int64_t SampleShape::targets() const { return product(target); }

std::string_view describe(DType type) { return type == DType::UInt8 ? "bool" : to_string(type); }

std::string describe(const SampleShape& shape) {
  std::string words = "inputs";
  for (const Part& part : shape.inputs())
    words += fmt::format("{}{} [{}]", words == "inputs" ? " " : ", ", describe(part.type),
                         fmt::join(part.extents, ", "));
  return shape.target.empty() ? words + " and one int64 label"
                              : fmt::format("{} and targets {} [{}]", words, to_string(shape.target_type),
                                            fmt::join(shape.target, ", "));
}

}  // namespace taxon::data
