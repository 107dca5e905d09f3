#include "peers/networks.h"

#include <torch/nn.h>

#include <stdexcept>

namespace taxon::bench {
namespace {

using namespace torch::nn;

Sequential cnn() {
  return Sequential({{"conv1", Conv2d(Conv2dOptions(1, 32, 3).padding(1))},
                     {"relu1", ReLU()},
                     {"pool1", MaxPool2d(2)},
                     {"conv2", Conv2d(Conv2dOptions(32, 64, 3).padding(1))},
                     {"relu2", ReLU()},
                     {"pool2", MaxPool2d(2)},
                     {"flatten", Flatten()},
                     {"fc1", Linear(64 * 7 * 7, 1024)},
                     {"relu3", ReLU()},
                     {"fc2", Linear(1024, 10)}});
}

/// As BatchNorm2d, which libtorch 1.13 of Debian does not export whole.
struct NormImpl : Module {
  explicit NormImpl(std::int64_t channels)
      : weight(register_parameter("weight", torch::ones(channels))),
        bias(register_parameter("bias", torch::zeros(channels))),
        mean(register_buffer("running_mean", torch::zeros(channels))),
        variance(register_buffer("running_var", torch::ones(channels))),
        batches(register_buffer("num_batches_tracked", torch::zeros({}, torch::kLong))) {}
  at::Tensor forward(const at::Tensor& input) {
    if (is_training()) batches += 1;
    return torch::batch_norm(input, weight, bias, mean, variance, is_training(), 0.1, 1e-5, false);
  }
  at::Tensor weight, bias, mean, variance, batches;
};
TORCH_MODULE(Norm);

Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t extent, std::int64_t stride) {
  return Conv2d(Conv2dOptions(in, out, extent).stride(stride).padding(extent / 2).bias(false));
}

/// He et al., CVPR 2016, with the names of torchvision.
struct BlockImpl : Module {
  BlockImpl(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv1(register_module("conv1", conv(in, out, 3, stride))),
        bn1(register_module("bn1", Norm(out))),
        conv2(register_module("conv2", conv(out, out, 3, 1))),
        bn2(register_module("bn2", Norm(out))) {
    if (in != out || stride != 1)
      downsample = register_module("downsample", Sequential(conv(in, out, 1, stride), Norm(out)));
  }
  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor inside = bn2(conv2(bn1(conv1(input)).relu_()));
    return (inside + (downsample ? downsample->forward(input) : input)).relu_();
  }
  Conv2d conv1;
  Norm bn1;
  Conv2d conv2;
  Norm bn2;
  Sequential downsample{nullptr};
};
TORCH_MODULE(Block);

struct StageImpl : Module {
  StageImpl(std::int64_t in, std::int64_t out, std::int64_t stride)
      : first(register_module("0", Block(in, out, stride))),
        second(register_module("1", Block(out, out, 1))) {}
  at::Tensor forward(const at::Tensor& input) { return second(first(input)); }
  Block first, second;
};
TORCH_MODULE(Stage);

Sequential resnet18() {
  return Sequential({{"conv1", conv(1, 64, 3, 1)},
                     {"bn1", Norm(64)},
                     {"relu", ReLU(ReLUOptions(true))},
                     {"layer1", Stage(64, 64, 1)},
                     {"layer2", Stage(64, 128, 2)},
                     {"layer3", Stage(128, 256, 2)},
                     {"layer4", Stage(256, 512, 2)},
                     {"pool", AdaptiveAvgPool2d(1)},
                     {"flatten", Flatten()},
                     {"fc", Linear(512, 10)}});
}

}  // namespace

torch::nn::Sequential plain_network(const std::string& name) {
  if (name == "cnn") return cnn();
  if (name == "resnet18") return resnet18();
  throw std::invalid_argument("no network " + name);
}

}  // namespace taxon::bench
