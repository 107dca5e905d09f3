#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace taxon::model {

/// A handle: changing its data changes the network's.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
  bool persistent = true;  // false: a buffer that is no part of state_dict()
};

/// Handles of the values as they are now: a later cast leaves them as they were.
std::vector<NamedTensor> as_they_are(const std::vector<NamedTensor>& tensors);

/// Casts in place the tensors that are floating-point; everybody who holds one sees it.
void cast_floating(const std::vector<NamedTensor>& tensors, at::ScalarType type);

}  // namespace taxon::model
