#include "model/torch/networks/residual.h"

#include <fmt/format.h>

#include <utility>

namespace taxon::model {
namespace {

using torch::nn::Conv2d;

class ResidualImpl final : public torch::nn::Module, public SplitBlock {
 public:
  ResidualImpl(std::int64_t in, const std::vector<BlockConvolution>& convolutions) {
    std::int64_t channels = in, stride = 1;
    for (std::size_t i = 0; i < convolutions.size(); ++i) {
      const BlockConvolution& c = convolutions[i];
      convolutions_.push_back(
          register_module(fmt::format("conv{}", i + 1), make_conv(channels, c.channels, c.extent, c.stride)));
      norms_.push_back(register_module(fmt::format("bn{}", i + 1), BatchNorm(c.channels)));
      channels = c.channels;
      stride *= c.stride;
    }
    if (in != channels || stride != 1)
      downsample_ =
          register_module("downsample", Chain(make_conv(in, channels, 1, stride), BatchNorm(channels)));
  }
  at::Tensor forward(const at::Tensor& input) {
    at::Tensor inside = convolutions_[0](input);
    for (std::size_t i = 1; i < convolutions_.size(); ++i) inside = convolve(i, std::move(inside));
    return finish(std::move(inside), input);
  }
  /// The first two convolutions are a pair, so that the norm's channels between them are a member's own.
  /// Others behind them take channels too, with the norms before them. The last norm, and the way past all,
  /// take what all members have.
  std::vector<NetworkStep> split(const std::string& name, Splitter& splitter) override {
    const parallel::SplitRow* wanted = splitter.wanted(name);
    if (wanted && wanted->output == parallel::kReplicated) return {{name, wanted, parameters()}};
    if (wanted && (wanted->input != parallel::kReplicated || wanted->output != parallel::kPartial))
      splitter.refuse(fmt::format("{} can't be split by {}", name, wanted->name));
    is_split_ = true;
    std::vector<NetworkStep> steps;
    for (std::size_t i = 0; i < convolutions_.size(); ++i) {
      const bool is_first = i == 0;
      splitter.cut(fmt::format("{}.conv{}", name, i + 1), *convolutions_[i],
                   parallel::find_split(is_first ? "outputs" : "inputs"));
      if (!is_first)
        splitter.cut(fmt::format("{}.bn{}", name, i), *norms_[i - 1], parallel::find_split("features"));
      if (is_first)
        steps.push_back({name, &parallel::find_split("pairs"), {}});
      else if (i > 1)
        steps.push_back({fmt::format("{}.conv{}", name, i + 1), &parallel::find_split("inputs"), {}});
      steps.back().parameters.push_back(convolutions_[i]->weight);
      if (!is_first)
        for (const at::Tensor& tensor : norms_[i - 1]->parameters())
          steps.back().parameters.push_back(tensor);
    }
    NetworkStep rest{name + ".rest", &parallel::find_split("none"), norms_.back()->parameters(),
                     /*reads_entering=*/true};
    if (downsample_)
      for (const at::Tensor& tensor : downsample_->parameters()) rest.parameters.push_back(tensor);
    steps.push_back(std::move(rest));
    return steps;
  }
  at::Tensor step(int step, at::Tensor input, const at::Tensor& entering) override {
    if (!is_split_) return forward(input);
    const auto at = static_cast<std::size_t>(step) + 1;
    if (at == convolutions_.size()) return finish(std::move(input), entering);
    return convolve(at, step == 0 ? convolutions_[0](input) : std::move(input));
  }
  double inside(const at::Tensor& input) override {
    at::Tensor passing = convolutions_[0](input);
    double elements = 0;
    for (std::size_t i = 1; i + 1 < convolutions_.size(); ++i) {
      passing = convolve(i, std::move(passing));
      elements += static_cast<double>(passing.numel());
    }
    return elements;
  }

 private:
  /// From what the convolution before left.
  at::Tensor convolve(std::size_t index, at::Tensor left) {
    return convolutions_[index](norms_[index - 1](left).relu_());
  }
  at::Tensor finish(at::Tensor left, const at::Tensor& input) {
    return norms_.back()(left).add_(downsample_ ? downsample_->forward(input) : input).relu_();
  }

  std::vector<Conv2d> convolutions_;
  std::vector<BatchNorm> norms_;  // of each, behind it
  Chain downsample_{nullptr};
  bool is_split_ = false;
};
TORCH_MODULE(Residual);

}  // namespace

Chain make_residual(const ModelContext& context, const ResidualLayout& layout) {
  const Stem stem = context.plan->options.read<ResidualOptions>().stem;
  const data::SampleShape& shape = context.shape;
  const bool is_small = stem == Stem::Small;
  require_images(shape, layout.name, is_small ? 8 : 16);
  Chain layers;
  layers->push_back("conv1", make_conv(shape.input[0], 64, is_small ? 3 : 7, is_small ? 1 : 2));
  layers->push_back("bn1", BatchNorm(64));
  layers->push_back("relu", torch::nn::ReLU(torch::nn::ReLUOptions(true)));
  if (!is_small)
    layers->push_back("maxpool", torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2).padding(1)));
  std::int64_t in = 64;
  for (std::size_t group = 0; group < layout.blocks.size(); ++group) {
    Chain blocks;
    for (int i = 0; i < layout.blocks[group]; ++i) {
      const auto block = layout.block(std::int64_t{64} << group, i == 0 && group > 0 ? 2 : 1);
      blocks->push_back(Residual(in, block));
      in = block.back().channels;
    }
    layers->push_back(fmt::format("layer{}", group + 1), blocks);
  }
  layers->push_back("avgpool", torch::nn::AdaptiveAvgPool2d(1));
  layers->push_back("flatten", torch::nn::Flatten());
  layers->push_back("fc", DirectLinear(in, shape.classes));
  return layers;
}

}  // namespace taxon::model
