#pragma once

#include <torch/nn/modules/container/sequential.h>

#include <functional>
#include <memory>
#include <string>

namespace taxon::bench {

/// A network of docs/models.md out of libtorch's own modules, as a sensible user would write it, with the
/// names of Taxon's parameters.
struct PlainNetwork {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> forward;  // samples to logits, classes last
  std::int64_t context = 0;                              // tokens of a sample; 0: it takes images
};

/// "cnn" and "resnet18" for Fashion-MNIST, "gpt" for windows of bytes: 4 layers of width 128 with 4 heads, of
/// 128 tokens.
PlainNetwork plain_network(const std::string& name);
/// "cnn" or "resnet18" as one module.
torch::nn::Sequential plain_image_network(const std::string& name);

/// Gives the module's parameters the values of a safetensors file, by their names.
void begin_with(torch::nn::Module& module, const std::string& path);
/// The share of samples whose label has the largest logit. Leaves the module evaluating.
double accuracy(const PlainNetwork& network, const at::Tensor& samples, const at::Tensor& labels);

}  // namespace taxon::bench
