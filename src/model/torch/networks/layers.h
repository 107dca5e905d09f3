#pragma once

#include <torch/nn.h>

#include <string_view>

#include "data/sample_shape.h"
#include "model/torch/gradients.h"
#include "model/torch/named_tensor.h"
#include "model/torch/splitter.h"

namespace taxon::model {

// What networks are built of. Initialised as PyTorch does by default (uniform in +-1/sqrt(fan in)), with
// float32 values drawn from the default generator.

/// torch::nn::Sequential of tensors to a tensor, which can stand inside another one.
class ChainImpl final : public torch::nn::SequentialImpl {
 public:
  using torch::nn::SequentialImpl::SequentialImpl;
  at::Tensor forward(at::Tensor input) { return torch::nn::SequentialImpl::forward(input); }
};
TORCH_MODULE(Chain);

/// torch::nn::Linear whose weight gradient, one matrix product, is computed in the gradient arena itself
/// where a GradientTarget allows it. Fully connected layers hold most parameters of small networks, and
/// copying their gradient would cost as much as the optimiser's pass. Where its first rows are awaited it is
/// computed in blocks of them, and so is the output where the weight's are.
class DirectLinearImpl final : public torch::nn::LinearImpl {
 public:
  using torch::nn::LinearImpl::LinearImpl;
  at::Tensor forward(const at::Tensor& input);
  /// Before forward() of the same input, where the target has row blocks: the outputs of all blocks up to
  /// `rows`.
  void forward_rows(const at::Tensor& input, std::int64_t rows) const;
  mutable GradientTarget* weight_target = nullptr;  // somebody else's, and no part of the layer

 private:
  bool is_direct(const at::Tensor& input) const;
};
TORCH_MODULE(DirectLinear);

/// Has the module's layers write the parameter's gradient where the target says. Whether any of them can.
bool offer_to_layers(const torch::nn::Module& module, const at::Tensor& parameter, GradientTarget* target);

/// Batch normalisation with the names and defaults of torch::nn::BatchNorm2d (whose class Debian's libtorch
/// does not export whole). It normalises in float32 when its input is bfloat16: libtorch wants parameters and
/// running statistics of one type, and statistics of 8 bits drift.
class BatchNormImpl final : public torch::nn::Module {
 public:
  explicit BatchNormImpl(std::int64_t channels)
      : weight_(register_parameter("weight", torch::ones(channels))),
        bias_(register_parameter("bias", torch::zeros(channels))),
        running_mean_(register_buffer("running_mean", torch::zeros(channels))),
        running_var_(register_buffer("running_var", torch::ones(channels))),
        num_batches_tracked_(register_buffer("num_batches_tracked", torch::zeros({}, torch::kLong))) {}
  at::Tensor forward(const at::Tensor& input);

 private:
  static constexpr double kMomentum = 0.1, kEpsilon = 1e-5;
  at::Tensor weight_, bias_, running_mean_, running_var_, num_batches_tracked_;
};
TORCH_MODULE(BatchNorm);

/// Without bias, and so padded that stride 1 keeps the extent.
torch::nn::Conv2d make_conv(std::int64_t in, std::int64_t out, std::int64_t extent, std::int64_t stride);

std::vector<NamedTensor> listed(const torch::OrderedDict<std::string, at::Tensor>& dictionary);

/// Throws Error{Usage} unless samples are images of at least `extent` x `extent`.
void require_images(const data::SampleShape& shape, std::string_view model, std::int64_t extent);

}  // namespace taxon::model
