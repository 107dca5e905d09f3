#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace taxon::model {

/// A handle: changing its data changes the network's.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// Casts in place the tensors that are floating-point; everybody who holds one sees it.
void cast_floating(const std::vector<NamedTensor>& tensors, at::ScalarType type);

}  // namespace taxon::model
