// A layer of one's own that members of a tensor axis share by a rule of one's own: a depthwise convolution,
// of which each has the filters of its channels and computes these, so that between a layer split by outputs
// and one split by inputs nothing travels.
#pragma once

#include <taxon/split.h>
#include <torch/torch.h>

inline taxon::parallel::SplitRow channels() {
  return {.name = "channels",
          .sentence = "each member has the filters of its channels",
          .source = "Chollet, CVPR 2017 (depthwise convolutions)",
          .divides_weights = true,
          .of_matrices = 0,
          .of_vectors = 0,
          .input = taxon::parallel::kByFeatures,
          .output = taxon::parallel::kByFeatures,
          .output_gradient = taxon::parallel::kByFeatures,
          .input_gradient = taxon::parallel::kByFeatures,
          .weight_gradient = taxon::parallel::kReplicated};
}

/// One filter of 3 x 3 for each channel.
struct DepthwiseImpl : torch::nn::Module {
  explicit DepthwiseImpl(std::int64_t channels)
      : weight(register_parameter("weight", torch::randn({channels, 1, 3, 3}) / 3)),
        bias(register_parameter("bias", torch::zeros(channels))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    return torch::conv2d(x, weight, bias, /*stride=*/1, /*padding=*/1, /*dilation=*/1,
                         /*groups=*/weight.size(0));
  }
  torch::Tensor weight, bias;
};
TORCH_MODULE(Depthwise);

inline taxon::parallel::LayerKind depthwise() {
  return {.name = "depthwise",
          .sentence = "a depthwise convolution",
          .has = [](const taxon::parallel::LayerFacts& layer) { return layer.type == "DepthwiseImpl"; },
          .splits = {"channels"}};
}
