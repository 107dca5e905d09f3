#include <fmt/format.h>
#include <torch/nn.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "model/torch/networks/row.h"
#include "plan/field.h"
#include "plan/legality.h"

namespace taxon::model {
namespace {

using torch::nn::Embedding;
using torch::nn::LayerNorm;
using torch::nn::Linear;

struct GptOptions {
  int layers = 4;
  int width = 128;
  int heads = 4;
  int context = 0;
  double dropout = 0;
};
template <plan::Like<GptOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(
      plan::Field{.key = "layers", .sentence = "Blocks of attention and perceptron.", .min = 1, .max = 1000},
      o.layers);
  visit(plan::Field{.key = "width",
                    .sentence =
                        "Numbers that stand for a token between blocks; a perceptron has four times as many.",
                    .min = 1,
                    .max = 1 << 16},
        o.width);
  visit(plan::Field{.key = "heads", .sentence = "Of attention; they divide width.", .min = 1, .max = 1024},
        o.heads);
  visit(
      plan::Field{.key = "context",
                  .sentence = "Tokens of a window, data.context; 0: as many as the data set's windows have.",
                  .min = 0,
                  .max = 1 << 20},
      o.context);
  visit(plan::Field{.key = "dropout",
                    .sentence = "Of embeddings, attention and what blocks add; 0: none.",
                    .min = 0,
                    .max = 1,
                    .below_max = true},
        o.dropout);
}

plan::Violation heads_divide(const plan::LegalityInput& c) {
  const auto options = c.plan.model.options.read<GptOptions>();
  return plan::unless(options.width % options.heads == 0,
                      fmt::format("width is {}, heads is {}", options.width, options.heads));
}

constexpr plan::PlanRule kRules[] = {{"model.heads", "must divide model.width", heads_divide}};

/// Of weights, and of biases none: normal with this deviation, as published with GPT-2.
constexpr double kDeviation = 0.02;

Linear make_linear(std::int64_t in, std::int64_t out, double deviation) {
  Linear linear(in, out);
  torch::nn::init::normal_(linear->weight, 0, deviation);
  torch::nn::init::zeros_(linear->bias);
  return linear;
}

/// Tokens see themselves and those before them: softmax(q k^T / sqrt(width of a head)) v. Vaswani et al.,
/// "Attention is all you need", NeurIPS 2017.
class AttentionImpl final : public torch::nn::Module {
 public:
  AttentionImpl(const GptOptions& options, double residual)
      : heads_(options.heads),
        dropout_(options.dropout),
        c_attn_(register_module("c_attn", make_linear(options.width, 3 * options.width, kDeviation))),
        c_proj_(register_module("c_proj", make_linear(options.width, options.width, residual))) {}
  /// Each member has some heads.
  void split(const std::string& name, Splitter& splitter) {
    const int members = splitter.members();
    if (heads_ % members != 0)
      splitter.refuse(
          fmt::format("{} has {} heads, which {} members can't share equally", name, heads_, members));
    splitter.cut_blocks(c_attn_->weight, 0, 3);
    splitter.cut_blocks(c_attn_->bias, 0, 3);
    splitter.cut_blocks(c_proj_->weight, 1, 1);
    heads_ /= members;
    member_ = splitter.member();
  }
  std::int64_t heads() const { return heads_; }
  /// [batch, tokens, width] to the same; of a member that has not all heads a summand of it.
  at::Tensor forward(const at::Tensor& input) {
    const std::int64_t batch = input.size(0), tokens = input.size(1), width = c_proj_->weight.size(1);
    const std::vector<at::Tensor> parts = c_attn_(input).split(width, 2);
    auto by_head = [&](const at::Tensor& part) {
      return part.view({batch, tokens, heads_, width / heads_}).transpose(1, 2);
    };
    const double scale = 1 / std::sqrt(static_cast<double>(width) / static_cast<double>(heads_));
    at::Tensor weights = by_head(parts[0]).matmul(by_head(parts[1]).transpose(2, 3)) * scale;
    const at::Tensor later = at::ones({tokens, tokens}, at::kBool).triu(1);
    weights = weights.masked_fill(later, -std::numeric_limits<double>::infinity()).softmax(3);
    weights = at::dropout(weights, dropout_, is_training());
    const at::Tensor mixed =
        weights.matmul(by_head(parts[2])).transpose(1, 2).reshape({batch, tokens, width});
    return at::dropout(with_bias_once(c_proj_(mixed), c_proj_->bias, member_), dropout_, is_training());
  }

 private:
  std::int64_t heads_;  // that it has
  const double dropout_;
  int member_ = 0;
  Linear c_attn_, c_proj_;
};
TORCH_MODULE(Attention);

class PerceptronLayersImpl final : public torch::nn::Module {
 public:
  PerceptronLayersImpl(const GptOptions& options, double residual)
      : dropout_(options.dropout),
        c_fc_(register_module("c_fc", make_linear(options.width, 4 * options.width, kDeviation))),
        c_proj_(register_module("c_proj", make_linear(4 * options.width, options.width, residual))) {}
  void split(const std::string& name, Splitter& splitter) {
    splitter.cut(name + ".c_fc", *c_fc_, parallel::find_split("outputs"));
    splitter.cut(name + ".c_proj", *c_proj_, parallel::find_split("inputs"));
    member_ = splitter.member();
  }
  /// Of a member that has not all hidden features: a summand.
  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor made = with_bias_once(c_proj_(at::gelu(c_fc_(input))), c_proj_->bias, member_);
    return at::dropout(made, dropout_, is_training());
  }

 private:
  const double dropout_;
  int member_ = 0;
  Linear c_fc_, c_proj_;
};
TORCH_MODULE(PerceptronLayers);

LayerNorm make_norm(int width) { return LayerNorm(torch::nn::LayerNormOptions({width})); }

/// Of what members compute of all samples, or of their own.
void whole_or_by_samples(const NetworkStep& step, Splitter& splitter) {
  if (step.row->by_samples())
    splitter.take_samples(step.name, step.parameters, 0);
  else if (step.row->input != parallel::kReplicated || step.row->output != parallel::kReplicated)
    splitter.refuse(fmt::format("{} can't be split by {}", step.name, step.row->name));
}

/// Norms stand before what they are for, so that the sum of all blocks passes unchanged (Radford et al.,
/// 2019).
class BlockImpl final : public torch::nn::Module {
 public:
  BlockImpl(const GptOptions& options, double residual)
      : ln_1_(register_module("ln_1", make_norm(options.width))),
        attn_(register_module("attn", Attention(options, residual))),
        ln_2_(register_module("ln_2", make_norm(options.width))),
        mlp_(register_module("mlp", PerceptronLayers(options, residual))) {}
  at::Tensor forward(const at::Tensor& input) { return perceptron(attention(input)); }
  std::vector<NetworkStep> split(const std::string& name, Splitter& splitter) {
    std::vector<NetworkStep> steps;
    const auto add = [&](const std::string& half, auto& layers, LayerNorm& norm, bool& is_split) {
      const parallel::SplitRow* wanted = splitter.wanted(half);
      const parallel::SplitRow& row = wanted ? *wanted : parallel::find_split("pairs");
      is_split = row.input == parallel::kReplicated && row.output == parallel::kPartial;
      steps.push_back({half, &row, layers->parameters()});
      for (const at::Tensor& tensor : norm->parameters()) steps.back().parameters.push_back(tensor);
      if (is_split) {
        for (const at::Tensor& tensor : norm->parameters()) splitter.partial(tensor);
        layers->split(half, splitter);
      } else {
        whole_or_by_samples(steps.back(), splitter);
      }
    };
    add(name + ".attn", attn_, ln_1_, attention_is_split_);
    add(name + ".mlp", mlp_, ln_2_, perceptron_is_split_);
    member_ = splitter.member();
    return steps;
  }
  std::shared_ptr<torch::nn::Module> half(const std::string& name) const { return named_children()[name]; }
  /// Whether so many members can have as many heads each.
  bool shares(int members) const { return attn_->heads() % members == 0; }
  /// Where these are split the sum of what members give has their input once.
  at::Tensor attention(const at::Tensor& input) {
    const at::Tensor made = attn_(ln_1_(input));
    return attention_is_split_ && member_ > 0 ? made : input + made;
  }
  at::Tensor perceptron(const at::Tensor& input) {
    const at::Tensor made = mlp_(ln_2_(input));
    return perceptron_is_split_ && member_ > 0 ? made : input + made;
  }

 private:
  LayerNorm ln_1_;
  Attention attn_;
  LayerNorm ln_2_;
  PerceptronLayers mlp_;
  bool attention_is_split_ = false, perceptron_is_split_ = false;
  int member_ = 0;
};
TORCH_MODULE(Block);

/// Radford et al., "Language models are unsupervised multitask learners", 2019 (GPT-2): its names of
/// parameters but for a common prefix, its initial values, linear weights as torch::nn::Linear has them.
/// Logits are products with the embedding of tokens, which is thus an input's and an output's weight.
class GptNetwork final : public Network {
 public:
  GptNetwork(const GptOptions& options, const data::SampleShape& shape)
      : dropout_(options.dropout), module_(std::make_shared<torch::nn::Module>()) {
    // What 2 * layers blocks add to a token has the deviation of one.
    const double residual = kDeviation / std::sqrt(2.0 * options.layers);
    wte_ = module_->register_module("wte", Embedding(shape.classes, options.width));
    wpe_ = module_->register_module("wpe", Embedding(shape.elements(), options.width));
    for (const Embedding& embedding : {wte_, wpe_})
      torch::nn::init::normal_(embedding->weight, 0, kDeviation);
    const auto list = module_->register_module("h", std::make_shared<torch::nn::Module>());
    for (int i = 0; i < options.layers; ++i)
      blocks_.push_back(list->register_module(std::to_string(i), Block(options, residual)));
    ln_f_ = module_->register_module("ln_f", make_norm(options.width));
  }

  std::vector<NamedTensor> parameters() const override {
    std::vector<NamedTensor> list;
    for (const auto& item : module_->named_parameters()) list.push_back({item.key(), item.value()});
    return list;
  }
  std::vector<NamedTensor> buffers() const override { return {}; }
  /// The embedding of positions is a stage of its own, as a stage's parameters have its name.
  std::vector<std::string> stages() const override {
    std::vector<std::string> names = {"wte", "wpe"};
    for (std::size_t i = 0; i < blocks_.size(); ++i) names.push_back(fmt::format("h.{}", i));
    names.emplace_back("ln_f");
    return names;
  }
  /// The last stage reads the first one's weight.
  std::vector<at::Tensor> borrowed(int stage) const override {
    if (static_cast<std::size_t>(stage) < blocks_.size() + 2) return {};
    return {wte_->weight};
  }
  at::Tensor forward(int stage, at::Tensor inputs) override {
    const auto at = static_cast<std::size_t>(stage);
    if (at == 0) return wte_(inputs);
    if (at == 1) {
      const at::Tensor positions = at::arange(inputs.size(1), at::kLong);
      return at::dropout(inputs + wpe_(positions), dropout_, module_->is_training());
    }
    if (at < blocks_.size() + 2) return blocks_[at - 2](inputs);
    return at::linear(ln_f_(inputs), wte_->weight);
  }
  /// Blocks in halves. All members have the embeddings: that of tokens also makes the logits, of which a loss
  /// over parts of the vocabulary would have to exchange maxima and sums.
  NetworkSplit split(Splitter splitter) override {
    if (splitter.chooses()) splitter.choose(candidates(splitter.members()));
    if (dropout_ > 0) splitter.refuse("members would drop different activations; leave model.dropout out");
    const auto step = [&](const std::string& name, std::vector<at::Tensor> parameters) {
      const parallel::SplitRow* wanted = splitter.wanted(name);
      NetworkStep whole{name, wanted ? wanted : &parallel::find_split("none"), std::move(parameters)};
      whole_or_by_samples(whole, splitter);
      return std::vector<NetworkStep>{std::move(whole)};
    };
    std::vector<std::vector<NetworkStep>> stages = {step("wte", wte_->parameters()),
                                                    step("wpe", wpe_->parameters())};
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      stages.push_back(blocks_[i]->split(fmt::format("h.{}", i), splitter));
    std::vector<at::Tensor> last = ln_f_->parameters();
    last.push_back(wte_->weight);
    stages.push_back(step("ln_f", std::move(last)));
    return splitter.finish(std::move(stages));
  }
  at::Tensor forward(int stage, int step, at::Tensor inputs, const at::Tensor&) override {
    const auto at = static_cast<std::size_t>(stage);
    if (at < 2 || at >= blocks_.size() + 2) return forward(stage, std::move(inputs));
    return step == 0 ? blocks_[at - 2]->attention(inputs) : blocks_[at - 2]->perceptron(inputs);
  }
  void set_mode(Mode mode) override { module_->train(mode == Mode::Train); }
  void cast(at::ScalarType type) override { cast_floating(parameters(), type); }
  void offer(const at::Tensor&, GradientTarget*) override {}
  ErrorKind fault() const override { return ErrorKind::Internal; }

 private:
  std::vector<parallel::SplitCandidate> candidates(int members) const {
    const auto tokens = static_cast<double>(wpe_->weight.size(0));
    const double between = tokens * static_cast<double>(wpe_->weight.size(1));
    const double logits = tokens * static_cast<double>(wte_->weight.size(0));
    std::vector<parallel::SplitCandidate> layers;
    const auto add = [&](std::string name, const std::vector<at::Tensor>& weights, double outputs,
                         bool divides) {
      parallel::SplitCandidate& layer =
          layers.emplace_back(parallel::SplitCandidate{std::move(name), 0, between, outputs, {}});
      for (const at::Tensor& tensor : weights) layer.weights += static_cast<double>(tensor.numel());
      if (divides) layer.rows = {&parallel::find_split("pairs"), &parallel::find_split("samples")};
      if (!divides) layer.rows = {&parallel::find_split("none")};
    };
    add("wte", wte_->parameters(), between, false);
    add("wpe", wpe_->parameters(), between, false);
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      for (const char* half : {"attn", "mlp"})
        add(fmt::format("h.{}.{}", i, half), blocks_[i]->half(half)->parameters(), between,
            blocks_[i]->shares(members));
    add("ln_f", ln_f_->parameters(), logits, false);
    return layers;
  }

  const double dropout_;
  std::shared_ptr<torch::nn::Module> module_;
  Embedding wte_{nullptr}, wpe_{nullptr};
  std::vector<Block> blocks_;
  LayerNorm ln_f_{nullptr};
};

std::unique_ptr<Network> make(const ModelContext& context) {
  const auto options = context.plan->options.read<GptOptions>();
  const std::int64_t window = context.shape.elements();
  if (options.context != 0 && options.context != window)
    throw Error(
        ErrorKind::Usage,
        fmt::format("model.context: is {}, and windows of the data set have {} tokens; make data.context "
                    "the same, or leave model.context out",
                    options.context, window));
  return std::make_unique<GptNetwork>(options, context.shape);
}

}  // namespace

ModelRow gpt() {
  return {.name = "gpt",
          .sentence =
              "Transformer for language (GPT-2): norms first, GELU, logits by the embedding of tokens; "
              "0.85 M parameters with 4 layers of 128 on bytes.",
          .make = build<make>,
          .takes_tokens = true,
          .options = plan::option_keys<GptOptions>,
          .rules = kRules};
}

}  // namespace taxon::model
