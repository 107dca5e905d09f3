#include <fmt/format.h>
#include <torch/nn.h>

#include "model/torch/networks/layers.h"
#include "model/torch/networks/row.h"
#include "plan/field.h"

namespace taxon::model {
namespace {

using torch::nn::Embedding;
using torch::nn::LSTM;

struct LstmOptions {
  int layers = 2;
  int width = 256;
  bool tied = false;
  double dropout = 0;
};
template <plan::Like<LstmOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(
      plan::Field{.key = "layers", .sentence = "Recurrent layers, one on the other.", .min = 1, .max = 1000},
      o.layers);
  visit(plan::Field{.key = "width",
                    .sentence = "Numbers that stand for a token, and of each layer's state.",
                    .min = 1,
                    .max = 1 << 16},
        o.width);
  visit(plan::Field{.key = "tied",
                    .sentence = "Whether logits are products with the embedding of tokens (Press and Wolf, "
                                "arXiv 1608.05859), or have weights of their own."},
        o.tied);
  visit(plan::Field{.key = "dropout",
                    .sentence = "Of what a layer, or the logits, take (Zaremba et al., arXiv 1409.2329).",
                    .min = 0,
                    .max = 1,
                    .below_max = true},
        o.dropout);
}

/// Zaremba, Sutskever and Vinyals, "Recurrent neural network regularization", arXiv 1409.2329, as PyTorch's
/// example of a word language model: its names of parameters, its initial values. Each window begins with
/// states of zero.
class LstmNetwork final : public Network {
 public:
  LstmNetwork(const LstmOptions& options, std::int64_t classes)
      : layers_(options.layers), dropout_(options.dropout), module_(std::make_shared<torch::nn::Module>()) {
    constexpr double kWithin = 0.1;
    const std::int64_t width = options.width;
    encoder_ = module_->register_module("encoder", Embedding(classes, width));
    torch::nn::init::uniform_(encoder_->weight, -kWithin, kWithin);
    const auto rnn =
        module_->register_module("rnn", LSTM(torch::nn::LSTMOptions(width, width).num_layers(layers_)));
    const std::vector<at::Tensor> weights = rnn->parameters();
    for (auto next = weights.begin(); next != weights.end(); next += 4) weights_.emplace_back(next, next + 4);
    const auto decoder = module_->register_module("decoder", std::make_shared<torch::nn::Module>());
    weight_ = decoder->register_parameter(
        "weight", options.tied ? encoder_->weight : at::empty({classes, width}).uniform_(-kWithin, kWithin));
    bias_ = decoder->register_parameter("bias", at::zeros(classes));
  }

  std::vector<NamedTensor> parameters() const override { return listed(module_->named_parameters()); }
  std::vector<NamedTensor> buffers() const override { return {}; }
  std::vector<std::string> stages() const override {
    std::vector<std::string> names = {"encoder"};
    for (int layer = 0; layer < layers_; ++layer) names.push_back(fmt::format("rnn.l{}", layer));
    names.emplace_back("decoder");
    return names;
  }
  /// A layer's parameters have its number behind their names.
  int stage_of(const std::string& parameter) const override {
    for (int layer = 0; layer < layers_; ++layer)
      if (parameter.ends_with(fmt::format("_l{}", layer))) return 1 + layer;
    return Network::stage_of(parameter);
  }
  std::vector<at::Tensor> borrowed(int stage) const override {
    if (stage <= layers_ || !weight_.is_same(encoder_->weight)) return {};
    return {encoder_->weight};
  }
  at::Tensor forward(int stage, at::Tensor inputs) override {
    if (stage > layers_) return at::linear(inputs, weight_, bias_);
    return at::dropout(
        stage == 0 ? encoder_(inputs) : recur(weights_[static_cast<std::size_t>(stage - 1)], inputs),
        dropout_, module_->is_training());
  }
  /// By samples: a step in time takes all features of the step before.
  NetworkSplit split(Splitter splitter) override {
    const std::vector<std::string> names = stages();
    std::vector<NetworkStep> steps;
    for (const std::string& name : names) steps.push_back({name, &parallel::find_split("samples"), {}});
    for (const NamedTensor& item : parameters())
      steps[static_cast<std::size_t>(stage_of(item.name))].parameters.push_back(item.tensor);
    if (splitter.chooses()) splitter.choose(candidates(steps, splitter.sample()));
    if (dropout_ > 0) splitter.refuse("members would drop different activations; leave model.dropout out");
    std::vector<std::vector<NetworkStep>> list;
    for (NetworkStep& step : steps) {
      if (const parallel::SplitRow* wanted = splitter.wanted(step.name)) step.row = wanted;
      splitter.keep_whole(step);
      list.push_back({std::move(step)});
    }
    return splitter.finish(std::move(list));
  }
  void set_mode(Mode mode) override { module_->train(mode == Mode::Train); }
  void cast(at::ScalarType type) override { cast_floating(parameters(), type); }
  void offer(const at::Tensor&, GradientTarget*) override {}
  ErrorKind fault() const override { return ErrorKind::Internal; }

 private:
  std::vector<parallel::SplitCandidate> candidates(const std::vector<NetworkStep>& steps,
                                                   at::Tensor passing) {
    at::NoGradGuard no_grad;
    set_mode(Mode::Evaluate);
    std::vector<parallel::SplitCandidate> layers;
    for (std::size_t stage = 0; stage < steps.size(); ++stage) {
      parallel::SplitCandidate& layer = layers.emplace_back();
      layer.name = steps[stage].name;
      for (const at::Tensor& tensor : steps[stage].parameters)
        layer.weights += static_cast<double>(tensor.numel());
      layer.inputs = static_cast<double>(passing.numel());
      passing = forward(static_cast<int>(stage), passing);
      layer.outputs = static_cast<double>(passing.numel());
      layer.rows = {steps[stage].row};
    }
    return layers;
  }
  at::Tensor recur(const std::vector<at::Tensor>& weights, const at::Tensor& inputs) const {
    const at::Tensor zeros = at::zeros({1, inputs.size(0), weights[1].size(1)}, inputs.options());
    return std::get<0>(at::lstm(inputs, {zeros, zeros}, weights, /*has_biases=*/true, /*num_layers=*/1,
                                /*dropout=*/0, module_->is_training(), /*bidirectional=*/false,
                                /*batch_first=*/true));
  }

  const int layers_;
  const double dropout_;
  std::shared_ptr<torch::nn::Module> module_;
  Embedding encoder_{nullptr};
  std::vector<std::vector<at::Tensor>> weights_;  // of each layer: of inputs, of states, and their biases
  at::Tensor weight_, bias_;                      // of logits
};

std::unique_ptr<Network> make_lstm(const ModelContext& context) {
  return std::make_unique<LstmNetwork>(context.plan->options.read<LstmOptions>(), context.shape.classes);
}

}  // namespace

ModelRow lstm() {
  return {.name = "lstm",
          .sentence =
              "Recurrent network for language (LSTM): embedding, 2 layers of 256, logits; 1.18 M "
              "parameters on bytes.",
          .make = build<make_lstm>,
          .takes_tokens = true,
          .options = plan::option_keys<LstmOptions>};
}

}  // namespace taxon::model
