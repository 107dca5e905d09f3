#include <fmt/format.h>

#include "model/torch/networks/module_network.h"
#include "model/torch/networks/row.h"

namespace taxon::model {
namespace {

using torch::nn::Conv2d;
using torch::nn::Flatten;
using torch::nn::ReLU;

/// The basic residual block of He et al., "Deep residual learning for image recognition", CVPR 2016, with the
/// names of torchvision.
class ResidualImpl final : public torch::nn::Module, public SplitBlock {
 public:
  ResidualImpl(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv1_(register_module("conv1", make_conv(in, out, 3, stride))),
        bn1_(register_module("bn1", BatchNorm(out))),
        conv2_(register_module("conv2", make_conv(out, out, 3, 1))),
        bn2_(register_module("bn2", BatchNorm(out))) {
    if (in != out || stride != 1)
      downsample_ = register_module("downsample", Chain(make_conv(in, out, 1, stride), BatchNorm(out)));
  }
  at::Tensor forward(const at::Tensor& input) {
    at::Tensor inside = bn1_(conv1_(input)).relu_();
    inside = bn2_(conv2_(inside));
    return finish(std::move(inside), input);
  }
  /// The convolutions are a pair, so that the first norm's channels are a member's own; the second norm, and
  /// the way past both, take what all members have.
  std::vector<NetworkStep> split(const std::string& name, Splitter& splitter) override {
    const parallel::SplitRow* wanted = splitter.wanted(name);
    if (wanted && wanted->output == parallel::kReplicated) return {{name, wanted, parameters()}};
    if (wanted && (wanted->input != parallel::kReplicated || wanted->output != parallel::kPartial))
      splitter.refuse(fmt::format("{} can't be split by {}", name, wanted->name));
    is_pair_ = true;
    splitter.cut(name + ".conv1", *conv1_, parallel::find_split("outputs"));
    splitter.cut(name + ".bn1", *bn1_, parallel::find_split("features"));
    splitter.cut(name + ".conv2", *conv2_, parallel::find_split("inputs"));
    std::vector<at::Tensor> rest = bn2_->parameters();
    if (downsample_)
      for (const at::Tensor& tensor : downsample_->parameters()) rest.push_back(tensor);
    std::vector<at::Tensor> pair = {conv1_->weight, conv2_->weight};
    for (const at::Tensor& tensor : bn1_->parameters()) pair.push_back(tensor);
    return {{name, &parallel::find_split("pairs"), pair},
            {name + ".rest", &parallel::find_split("none"), rest, /*reads_entering=*/true}};
  }
  at::Tensor step(int step, at::Tensor input, const at::Tensor& entering) override {
    if (!is_pair_) return forward(input);
    if (step == 0) return conv2_(bn1_(conv1_(input)).relu_());
    return finish(bn2_(input), entering);
  }

 private:
  at::Tensor finish(at::Tensor inside, const at::Tensor& input) {
    return inside.add_(downsample_ ? downsample_->forward(input) : input).relu_();
  }

  Conv2d conv1_;
  BatchNorm bn1_;
  Conv2d conv2_;
  BatchNorm bn2_;
  Chain downsample_{nullptr};
  bool is_pair_ = false;
};
TORCH_MODULE(Residual);

std::unique_ptr<Network> make(const ModelContext& context) {
  const data::SampleShape& shape = context.shape;
  require_images(shape, "resnet18", 8);
  Chain layers;
  layers->push_back("conv1", make_conv(shape.input[0], 64, 3, 1));
  layers->push_back("bn1", BatchNorm(64));
  layers->push_back("relu", ReLU(torch::nn::ReLUOptions(true)));
  std::int64_t in = 64;
  for (int stage = 1; stage <= 4; ++stage) {
    const std::int64_t out = std::int64_t{32} << stage;
    layers->push_back(fmt::format("layer{}", stage),
                      Chain(Residual(in, out, stage == 1 ? 1 : 2), Residual(out, out, 1)));
    in = out;
  }
  layers->push_back("pool", torch::nn::AdaptiveAvgPool2d(1));
  layers->push_back("flatten", Flatten());
  layers->push_back("fc", DirectLinear(in, shape.classes));
  return std::make_unique<ModuleNetwork>(layers);
}

}  // namespace

ModelRow resnet18() {
  return {.name = "resnet18",
          .sentence = "18 layers with batch norm, 3 x 3 stem: 11.2 M parameters.",
          .make = build<make>};
}

}  // namespace taxon::model
