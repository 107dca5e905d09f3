#pragma once

#include <torch/nn/modules/container/sequential.h>

#include <string>

namespace taxon::bench {

/// "cnn" or "resnet18" of docs/models.md for Fashion-MNIST, out of libtorch's own modules, with the names of
/// Taxon's parameters.
torch::nn::Sequential plain_network(const std::string& name);

}  // namespace taxon::bench
