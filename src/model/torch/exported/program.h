#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "model/torch/exported/graph.h"
#include "model/torch/named_tensor.h"

namespace taxon::model::exported {

/// What a file of torch.export.save holds.
struct Program {
  Graph graph;
  std::vector<at::Tensor> stored;                // in the order of the graph's inputs
  std::vector<NamedTensor> parameters, buffers;  // of these, under PyTorch's names
  std::vector<at::Tensor> constants;             // and the rest
};

/// Throws Error{Data}, whose words follow the file's name, for a file that is none of these, was written by
/// another version or holds more than one program.
Program read_program(const std::string& path);

}  // namespace taxon::model::exported
