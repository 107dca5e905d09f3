#include "parallel/layer.h"

#include <fmt/format.h>

namespace taxon::parallel {

Layer convolution(std::string name, const ConvolutionShape& shape) {
  const std::int64_t weights = shape.inputs * shape.outputs * shape.kernel * shape.kernel;
  const std::int64_t in = std::int64_t{shape.in_side} * shape.in_side;
  const std::int64_t out = std::int64_t{shape.out_side} * shape.out_side;
  return {.name = std::move(name),
          .shape = fmt::format("{0}x{0}, {1} to {2} at {3}x{3}", shape.kernel, shape.inputs, shape.outputs,
                               shape.out_side),
          .weights = weights,
          .vectors = shape.outputs,
          .macs = static_cast<double>(weights) * static_cast<double>(out),
          .exchanged = shape.inputs * in,
          .outputs = shape.outputs * out,
          .ways = shape.outputs};
}

Layer linear(std::string name, const LinearShape& shape) {
  const std::int64_t weights = shape.inputs * shape.outputs;
  return {.name = std::move(name),
          .shape = shape.positions == 1
                       ? fmt::format("{} to {}", shape.inputs, shape.outputs)
                       : fmt::format("{} to {}, {} times", shape.inputs, shape.outputs, shape.positions),
          .weights = weights,
          .vectors = shape.outputs,
          .macs = static_cast<double>(weights) * static_cast<double>(shape.positions),
          .exchanged = shape.inputs * shape.positions,
          .outputs = shape.outputs * shape.positions,
          .ways = shape.outputs};
}

}  // namespace taxon::parallel
