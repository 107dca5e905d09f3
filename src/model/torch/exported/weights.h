#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "model/torch/exported/archive.h"
#include "model/torch/exported/graph.h"

namespace taxon::model::exported {

/// PyTorch's type of that number in the schema. Throws Error{Data} for one that this libtorch has not.
at::ScalarType scalar_type(ScalarTypeCode code);

/// The tensors of a file: parameters, buffers and constants.
class Weights {
 public:
  /// Keeps both references.
  Weights(const Archive& archive, const std::map<std::string, Payload>& payloads)
      : archive_(archive), payloads_(payloads) {}

  /// A contiguous tensor of its own; for names of one tensor, one and the same. Throws Error{Data} where the
  /// file has none, not enough bytes for its shape, or a parameter that shares memory in another way.
  at::Tensor at(const std::string& name);

 private:
  at::Tensor read(const std::string& name, const Payload& payload);

  const Archive& archive_;
  const std::map<std::string, Payload>& payloads_;
  std::map<std::string, at::Tensor> shared_;  // by member and place in it
  std::map<std::string, bool> trained_;       // by member
  std::int64_t expanded_ = 0;                 // elements of expanded tensors so far
};

}  // namespace taxon::model::exported
