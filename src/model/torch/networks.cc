#include <fmt/format.h>
#include <torch/nn.h>

#include "model/torch/network.h"

namespace taxon::model {
namespace {

using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;
using torch::nn::Flatten;
using torch::nn::MaxPool2d;
using torch::nn::ReLU;

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

/// Rows of a weight gradient that are computed at a time.
constexpr std::int64_t kRowBytes = 2 << 20, kRowMultiple = 64;

/// The slot += or := output^T input, in blocks of rows, so that the first ones travel while the last are
/// computed.
void write_rows(GradientTarget& target, const at::Tensor& output, const at::Tensor& input) {
  const std::int64_t rows = target.slot.size(0), row = target.slot.size(1);
  const std::int64_t row_bytes = std::max<std::int64_t>(1, row * target.slot.element_size());
  const std::int64_t block = std::max(kRowMultiple, kRowBytes / row_bytes / kRowMultiple * kRowMultiple);
  for (std::int64_t begin = 0; begin < rows; begin += block) {
    const std::int64_t count = std::min(block, rows - begin);
    at::Tensor part = target.slot.narrow(0, begin, count);
    const at::Tensor left = output.narrow(1, begin, count).t();
    if (target.filled)
      part.addmm_(left, input);
    else
      at::mm_out(part, left, input);
    target.sink->written(target, static_cast<std::size_t>((begin + count) * row));
  }
}

/// y = x w^T + b for a matrix x.
struct LinearIntoTarget : torch::autograd::Function<LinearIntoTarget> {
  enum Edge { kInput, kWeight, kBias };

  static Variable forward(AutogradContext* context, const Variable& input, const Variable& weight,
                          const Variable& bias, std::int64_t target) {
    context->save_for_backward({input, weight});
    context->saved_data["target"] = target;
    ++reinterpret_cast<GradientTarget*>(target)->uses;
    return at::addmm(bias, input, weight.t());
  }

  static variable_list backward(AutogradContext* context, const variable_list& outputs) {
    const variable_list saved = context->get_saved_variables();
    const Variable &input = saved[0], &weight = saved[1], &output = outputs[0];
    auto* target = reinterpret_cast<GradientTarget*>(context->saved_data["target"].toInt());
    at::NoGradGuard no_grad;
    --target->uses;
    if (target->leaves_factors())
      target->sink->append_factors(*target, output, input);
    else
      write_rows(*target, output, input);
    target->filled = true;
    variable_list gradients(4);  // one per argument of forward; undefined: none, or already in the target
    if (context->needs_input_grad(kInput)) gradients[kInput] = output.mm(weight);
    if (context->needs_input_grad(kBias)) gradients[kBias] = output.sum(0);
    return gradients;
  }
};

/// torch::nn::Sequential of tensors to a tensor, which can stand inside another one.
class ChainImpl final : public torch::nn::SequentialImpl {
 public:
  using torch::nn::SequentialImpl::SequentialImpl;
  at::Tensor forward(at::Tensor input) { return torch::nn::SequentialImpl::forward(input); }
};
TORCH_MODULE(Chain);

/// torch::nn::Linear whose weight gradient, one matrix product, is computed in the gradient arena itself
/// where a GradientTarget allows it. Fully connected layers hold most parameters of small networks, and
/// copying their gradient would cost as much as the optimiser's pass.
class DirectLinearImpl final : public torch::nn::LinearImpl {
 public:
  using torch::nn::LinearImpl::LinearImpl;
  at::Tensor forward(const at::Tensor& input);
  GradientTarget* weight_target = nullptr;
};
TORCH_MODULE(DirectLinear);

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

at::Tensor DirectLinearImpl::forward(const at::Tensor& input) {
  const bool direct =
      weight_target && weight_target->direct && at::GradMode::is_enabled() && input.dim() == 2;
  if (!direct) return at::linear(input, weight, bias);
  return LinearIntoTarget::apply(input, weight, bias, reinterpret_cast<std::int64_t>(weight_target));
}

at::Tensor BatchNormImpl::forward(const at::Tensor& input) {
  if (is_training()) num_batches_tracked_ += 1;
  bool widen = input.scalar_type() == at::kBFloat16;
  auto wide = [&](const at::Tensor& tensor) { return widen ? tensor.to(at::kFloat) : tensor; };
  at::Tensor output = at::batch_norm(wide(input), wide(weight_), wide(bias_), running_mean_, running_var_,
                                     is_training(), kMomentum, kEpsilon, /*cudnn_enabled=*/false);
  return widen ? output.to(at::kBFloat16) : output;
}

/// A network out of the framework's modules.
class ModuleNetwork final : public Network {
 public:
  /// Every child with parameters begins a stage, and so does every child of a chain inside; those without
  /// belong to the one before them.
  explicit ModuleNetwork(Chain module, at::MemoryFormat fastest = at::MemoryFormat::Contiguous)
      : module_(std::move(module)), fastest_(fastest) {
    collect(*module_, "");
    begins_.front() = 0;
  }

  std::vector<NamedTensor> parameters() const override { return listed(module_->named_parameters()); }
  std::vector<NamedTensor> buffers() const override { return listed(module_->named_buffers()); }
  std::vector<std::string> stages() const override { return stages_; }
  at::Tensor forward(int stage, at::Tensor inputs) override {
    const auto index = static_cast<std::size_t>(stage);
    const std::size_t end = index + 1 < begins_.size() ? begins_[index + 1] : steps_.size();
    for (std::size_t step = begins_[index]; step < end; ++step)
      inputs = steps_[step]->forward(std::move(inputs));
    return inputs;
  }
  at::MemoryFormat fastest() const override { return fastest_; }
  void set_mode(Mode mode) override { module_->train(mode == Mode::Train); }
  void cast(at::ScalarType type) override {
    cast_floating(parameters(), type);
    if (type != at::kBFloat16) cast_floating(buffers(), type);  // see BatchNorm
  }
  void offer(const at::Tensor& parameter, GradientTarget* target) override {
    int owners = 0;
    for (const auto& module : module_->modules())
      for (const at::Tensor& own : module->parameters(/*recurse=*/false)) owners += own.is_same(parameter);
    target->exclusive = owners == 1;
    for (const auto& module : module_->modules())
      if (auto* linear = module->as<DirectLinearImpl>(); linear && linear->weight.is_same(parameter))
        linear->weight_target = target;
  }
  bool is_linear(const at::Tensor& parameter) const override {
    int owners = 0;
    bool linear = false;
    for (const auto& module : module_->modules())
      for (const at::Tensor& own : module->parameters(/*recurse=*/false)) {
        const auto* layer = module->as<DirectLinearImpl>();
        owners += own.is_same(parameter);
        linear = linear || (layer && layer->weight.is_same(parameter));
      }
    return linear && owners == 1;
  }
  ErrorKind fault() const override { return ErrorKind::Internal; }

 private:
  static std::vector<NamedTensor> listed(const torch::OrderedDict<std::string, at::Tensor>& dictionary) {
    std::vector<NamedTensor> list;
    for (const auto& item : dictionary) list.push_back({item.key(), item.value()});
    return list;
  }
  void collect(ChainImpl& chain, const std::string& prefix) {
    auto module = chain.begin();
    for (const auto& child : chain.named_children()) {
      const std::string name = prefix + child.key();
      if (auto* inside = child.value()->as<ChainImpl>()) {
        collect(*inside, name + ".");
      } else {
        if (!child.value()->parameters().empty()) {
          stages_.push_back(name);
          begins_.push_back(steps_.size());
        }
        steps_.push_back(&*module);
      }
      ++module;
    }
  }

  Chain module_;
  const at::MemoryFormat fastest_;
  std::vector<torch::nn::AnyModule*> steps_;  // of the forward pass, in the chain and the chains inside
  std::vector<std::string> stages_;
  std::vector<std::size_t> begins_;  // first step of each stage
};

Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t extent, std::int64_t stride) {
  return Conv2d(Conv2dOptions(in, out, extent).stride(stride).padding(extent / 2).bias(false));
}

/// The basic residual block of He et al., "Deep residual learning for image recognition", CVPR 2016, with the
/// names of torchvision.
class ResidualImpl final : public torch::nn::Module {
 public:
  ResidualImpl(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv1_(register_module("conv1", conv(in, out, 3, stride))),
        bn1_(register_module("bn1", BatchNorm(out))),
        conv2_(register_module("conv2", conv(out, out, 3, 1))),
        bn2_(register_module("bn2", BatchNorm(out))) {
    if (in != out || stride != 1)
      downsample_ = register_module("downsample", Chain(conv(in, out, 1, stride), BatchNorm(out)));
  }
  at::Tensor forward(const at::Tensor& input) {
    at::Tensor inside = bn1_(conv1_(input)).relu_();
    inside = bn2_(conv2_(inside));
    return inside.add_(downsample_ ? downsample_->forward(input) : input).relu_();
  }

 private:
  Conv2d conv1_;
  BatchNorm bn1_;
  Conv2d conv2_;
  BatchNorm bn2_;
  Chain downsample_{nullptr};
};
TORCH_MODULE(Residual);

/// Throws Error{Usage} unless samples are images of at least `extent` x `extent`.
void require_images(const data::SampleShape& shape, std::string_view model, std::int64_t extent) {
  const auto& input = shape.input;
  if (input.size() == 3 && input[1] >= extent && input[2] >= extent) return;
  throw Error(
      ErrorKind::Usage,
      fmt::format("model {} needs samples of shape [channels, height, width] of at least {} x {}, the "
                  "data set has [{}]; choose another model or data set",
                  model, extent, extent, fmt::join(input, ", ")));
}

}  // namespace

std::unique_ptr<Network> make_mlp(const data::SampleShape& shape) {
  Chain layers;
  layers->push_back("flatten", Flatten());
  layers->push_back("fc1", DirectLinear(shape.elements(), 256));
  layers->push_back("relu1", ReLU());
  layers->push_back("fc2", DirectLinear(256, 128));
  layers->push_back("relu2", ReLU());
  layers->push_back("fc3", DirectLinear(128, shape.classes));
  return std::make_unique<ModuleNetwork>(layers);
}

/// LeCun et al., "Gradient-based learning applied to document recognition", Proceedings of the IEEE 1998,
/// figure 2, with rectifiers and pooling by maxima.
std::unique_ptr<Network> make_lenet5(const data::SampleShape& shape) {
  require_images(shape, "lenet5", 12);
  const auto left = [](std::int64_t extent) { return (extent / 2 - 4) / 2; };
  Chain layers;
  layers->push_back("conv1", Conv2d(Conv2dOptions(shape.input[0], 6, 5).padding(2)));
  layers->push_back("relu1", ReLU());
  layers->push_back("pool1", MaxPool2d(2));
  layers->push_back("conv2", Conv2d(Conv2dOptions(6, 16, 5)));
  layers->push_back("relu2", ReLU());
  layers->push_back("pool2", MaxPool2d(2));
  layers->push_back("flatten", Flatten());
  layers->push_back("fc1", DirectLinear(16 * left(shape.input[1]) * left(shape.input[2]), 120));
  layers->push_back("relu3", ReLU());
  layers->push_back("fc2", DirectLinear(120, 84));
  layers->push_back("relu4", ReLU());
  layers->push_back("fc3", DirectLinear(84, shape.classes));
  return std::make_unique<ModuleNetwork>(layers);
}

std::unique_ptr<Network> make_cnn(const data::SampleShape& shape) {
  require_images(shape, "cnn", 4);
  const std::int64_t features = 64 * (shape.input[1] / 4) * (shape.input[2] / 4);
  Chain layers;
  layers->push_back("conv1", Conv2d(Conv2dOptions(shape.input[0], 32, 3).padding(1)));
  layers->push_back("relu1", ReLU());
  layers->push_back("pool1", MaxPool2d(2));
  layers->push_back("conv2", Conv2d(Conv2dOptions(32, 64, 3).padding(1)));
  layers->push_back("relu2", ReLU());
  layers->push_back("pool2", MaxPool2d(2));
  layers->push_back("flatten", Flatten());
  layers->push_back("fc1", DirectLinear(features, 1024));
  layers->push_back("relu3", ReLU());
  layers->push_back("fc2", DirectLinear(1024, shape.classes));
  // Poolings of many channels are several times as fast where these lie side by side.
  return std::make_unique<ModuleNetwork>(layers, at::MemoryFormat::ChannelsLast);
}

std::unique_ptr<Network> make_resnet18(const data::SampleShape& shape) {
  require_images(shape, "resnet18", 8);
  Chain layers;
  layers->push_back("conv1", conv(shape.input[0], 64, 3, 1));
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

}  // namespace taxon::model
