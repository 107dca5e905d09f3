#include "peers/networks.h"

#include <torch/nn.h>
#include <torch/utils.h>
#include <torch/version.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
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

struct AttentionImpl : Module {
  AttentionImpl(std::int64_t width, std::int64_t heads)
      : heads(heads),
        c_attn(register_module("c_attn", Linear(width, 3 * width))),
        c_proj(register_module("c_proj", Linear(width, width))) {}
  at::Tensor forward(const at::Tensor& input) {
    const std::int64_t batch = input.size(0), tokens = input.size(1), width = input.size(2);
    std::vector<at::Tensor> parts = c_attn(input).split(width, 2);
    for (at::Tensor& part : parts) part = part.view({batch, tokens, heads, width / heads}).transpose(1, 2);
    return c_proj(mixed(parts[0], parts[1], parts[2]).transpose(1, 2).reshape({batch, tokens, width}));
  }
  static at::Tensor mixed(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
#if TORCH_VERSION_MAJOR >= 2
    return at::scaled_dot_product_attention(query, key, value, {}, 0, /*is_causal=*/true);
#else
    const at::Tensor later = at::ones({query.size(2), query.size(2)}, at::kBool).triu(1);
    const at::Tensor scores =
        query.matmul(key.transpose(2, 3)) / std::sqrt(static_cast<double>(query.size(3)));
    return scores.masked_fill(later, -std::numeric_limits<double>::infinity()).softmax(3).matmul(value);
#endif
  }
  std::int64_t heads;
  Linear c_attn, c_proj;
};
TORCH_MODULE(Attention);

struct PerceptronImpl : Module {
  explicit PerceptronImpl(std::int64_t width)
      : c_fc(register_module("c_fc", Linear(width, 4 * width))),
        c_proj(register_module("c_proj", Linear(4 * width, width))) {}
  at::Tensor forward(const at::Tensor& input) { return c_proj(at::gelu(c_fc(input))); }
  Linear c_fc, c_proj;
};
TORCH_MODULE(Perceptron);

LayerNorm norm(std::int64_t width) { return LayerNorm(LayerNormOptions({width})); }

struct GptBlockImpl : Module {
  GptBlockImpl(std::int64_t width, std::int64_t heads)
      : ln_1(register_module("ln_1", norm(width))),
        attn(register_module("attn", Attention(width, heads))),
        ln_2(register_module("ln_2", norm(width))),
        mlp(register_module("mlp", Perceptron(width))) {}
  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor attended = input + attn(ln_1(input));
    return attended + mlp(ln_2(attended));
  }
  LayerNorm ln_1;
  Attention attn;
  LayerNorm ln_2;
  Perceptron mlp;
};
TORCH_MODULE(GptBlock);

/// Radford et al., "Language models are unsupervised multitask learners", 2019 (GPT-2), whose logits are
/// products with the embedding of tokens.
struct GptImpl : Module {
  GptImpl(std::int64_t vocabulary, std::int64_t context, int layers, std::int64_t width, std::int64_t heads)
      : wte(register_module("wte", Embedding(vocabulary, width))),
        wpe(register_module("wpe", Embedding(context, width))),
        h(register_module("h", ModuleList())),
        ln_f(register_module("ln_f", norm(width))) {
    for (int i = 0; i < layers; ++i) h->push_back(GptBlock(width, heads));
  }
  at::Tensor forward(const at::Tensor& tokens) {
    at::Tensor values = wte(tokens) + wpe(at::arange(tokens.size(1), at::kLong));
    for (const auto& block : *h) values = block->as<GptBlock>()->forward(values);
    return at::linear(ln_f(values), wte->weight);
  }
  Embedding wte, wpe;
  ModuleList h;
  LayerNorm ln_f;
};
TORCH_MODULE(Gpt);

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

template <class Holder>
PlainNetwork whole(Holder module, std::int64_t context = 0) {
  return {module.ptr(), [module](const at::Tensor& samples) mutable { return module->forward(samples); },
          context};
}

}  // namespace

torch::nn::Sequential plain_image_network(const std::string& name) {
  if (name == "cnn") return cnn();
  if (name == "resnet18") return resnet18();
  throw std::invalid_argument("no network " + name);
}

PlainNetwork plain_network(const std::string& name) {
  constexpr std::int64_t kContext = 128;
  return name == "gpt" ? whole(Gpt(256, kContext, 4, 128, 4), kContext) : whole(plain_image_network(name));
}

void begin_with(torch::nn::Module& module, const std::string& path) {
  const std::string bytes = contents(path);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const auto head = nlohmann::json::parse(bytes.substr(sizeof length, length));
  const torch::NoGradGuard no_gradients;
  for (auto& parameter : module.named_parameters()) {
    const auto& at = head.at(parameter.key());
    std::string values = bytes.substr(sizeof length + length + at.at("data_offsets")[0].get<std::size_t>(),
                                      static_cast<std::size_t>(parameter->numel()) * sizeof(float));
    parameter->copy_(torch::from_blob(values.data(), parameter->sizes(), torch::kFloat32));
  }
}

double accuracy(const PlainNetwork& network, const at::Tensor& samples, const at::Tensor& labels) {
  const torch::NoGradGuard no_gradients;
  network.module->eval();
  std::int64_t right = 0;
  for (std::int64_t begin = 0; begin < samples.size(0); begin += 500) {
    const auto end = std::min<std::int64_t>(begin + 500, samples.size(0));
    const auto guess = network.forward(samples.slice(0, begin, end)).argmax(1);
    right += guess.eq(labels.slice(0, begin, end)).sum().item<std::int64_t>();
  }
  return static_cast<double>(right) / static_cast<double>(samples.size(0));
}

}  // namespace taxon::bench
