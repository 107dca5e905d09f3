#include "model/torch/networks/transformer.h"

#include <fmt/format.h>
#include <torch/version.h>

#include <cmath>
#include <limits>
#include <utility>

#include "model/torch/networks/layers.h"
#include "plan/legality.h"

namespace taxon::model {
namespace {

using torch::nn::LayerNorm;
using torch::nn::Linear;

plan::Violation heads_divide(const plan::LegalityInput& c) {
  const auto options = c.plan.model.options.read<TransformerOptions>();
  return plan::unless(options.width % options.heads == 0,
                      fmt::format("width is {}, heads is {}", options.width, options.heads));
}

/// softmax(q k^T / sqrt(width of a head)) v, of [batch, heads, tokens, width of a head]. Vaswani et al.,
/// "Attention is all you need", NeurIPS 2017.
at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, Attends attends,
                  double dropout) {
#if TORCH_VERSION_MAJOR >= 2
  return at::scaled_dot_product_attention(query, key, value, {}, dropout, attends == Attends::ToEarlier);
#else
  const double scale = 1 / std::sqrt(static_cast<double>(query.size(3)));
  at::Tensor weights = query.matmul(key.transpose(2, 3)) * scale;
  if (attends == Attends::ToEarlier) {
    const std::int64_t tokens = query.size(2);
    const at::Tensor later = at::ones({tokens, tokens}, at::kBool).triu(1);
    weights = weights.masked_fill(later, -std::numeric_limits<double>::infinity());
  }
  return at::dropout(weights.softmax(3), dropout, dropout > 0).matmul(value);
#endif
}

class AttentionImpl final : public torch::nn::Module {
 public:
  AttentionImpl(const TransformerOptions& options, const TransformerBlocks& blocks)
      : heads_(options.heads),
        dropout_(options.dropout),
        attends_(blocks.attends),
        qkv_(blocks.make_linear(BlockLayer::Qkv, options.width, 3 * options.width)) {
    if (blocks.names.qkv) {
      register_module(blocks.names.qkv, qkv_);
    } else {
      register_parameter("in_proj_weight", qkv_->weight);
      register_parameter("in_proj_bias", qkv_->bias);
    }
    out_ =
        register_module(blocks.names.out, blocks.make_linear(BlockLayer::Out, options.width, options.width));
  }
  bool divides(int members) const { return heads_ % members == 0; }
  /// Each member has some heads.
  void split(const std::string& name, Splitter& splitter) {
    const int members = splitter.members();
    if (!divides(members))
      splitter.refuse(
          fmt::format("{} has {} heads, which {} members can't share equally", name, heads_, members));
    splitter.cut_blocks(qkv_->weight, 0, 3);
    splitter.cut_blocks(qkv_->bias, 0, 3);
    splitter.cut_blocks(out_->weight, 1, 1);
    heads_ /= members;
    member_ = splitter.member();
  }
  /// [batch, tokens, width] to the same; of a member that has not all heads a summand of it.
  at::Tensor forward(const at::Tensor& input) {
    const std::int64_t batch = input.size(0), tokens = input.size(1), width = out_->weight.size(1);
    const std::vector<at::Tensor> parts = qkv_(input).split(width, 2);
    auto by_head = [&](const at::Tensor& part) {
      return part.view({batch, tokens, heads_, width / heads_}).transpose(1, 2);
    };
    const at::Tensor heads = attend(by_head(parts[0]), by_head(parts[1]), by_head(parts[2]), attends_,
                                    is_training() ? dropout_ : 0);
    const at::Tensor mixed = heads.transpose(1, 2).reshape({batch, tokens, width});
    return at::dropout(with_bias_once(out_(mixed), out_->bias, member_), dropout_, is_training());
  }

 private:
  std::int64_t heads_;  // that it has
  const double dropout_;
  const Attends attends_;
  int member_ = 0;
  Linear qkv_, out_{nullptr};
};
TORCH_MODULE(Attention);

class PerceptronLayersImpl final : public torch::nn::Module {
 public:
  PerceptronLayersImpl(const TransformerOptions& options, const TransformerBlocks& blocks)
      : dropout_(options.dropout),
        up_(register_module(blocks.names.up,
                            blocks.make_linear(BlockLayer::Up, options.width, 4 * options.width))),
        down_(register_module(blocks.names.down,
                              blocks.make_linear(BlockLayer::Down, 4 * options.width, options.width))) {
    names_ = {blocks.names.up, blocks.names.down};
  }
  bool divides(int members) const { return up_->weight.size(0) % members == 0; }
  void split(const std::string& name, Splitter& splitter) {
    splitter.cut(fmt::format("{}.{}", name, names_.first), *up_, parallel::find_split("outputs"));
    splitter.cut(fmt::format("{}.{}", name, names_.second), *down_, parallel::find_split("inputs"));
    member_ = splitter.member();
  }
  /// Of a member that has not all hidden features: a summand.
  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor made = with_bias_once(down_(at::gelu(up_(input))), down_->bias, member_);
    return at::dropout(made, dropout_, is_training());
  }

 private:
  const double dropout_;
  int member_ = 0;
  Linear up_, down_;
  std::pair<std::string, std::string> names_;
};
TORCH_MODULE(PerceptronLayers);

class BlockImpl final : public torch::nn::Module {
 public:
  BlockImpl(const TransformerOptions& options, const TransformerBlocks& blocks)
      : ln_1_(register_module("ln_1", make_norm(options.width, blocks.epsilon))),
        attention_(register_module(blocks.names.attention, Attention(options, blocks))),
        ln_2_(register_module("ln_2", make_norm(options.width, blocks.epsilon))),
        perceptron_(register_module(blocks.names.perceptron, PerceptronLayers(options, blocks))) {
    halves_ = {blocks.names.attention, blocks.names.perceptron};
  }
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
        splitter.keep_whole(steps.back());
      }
    };
    add(fmt::format("{}.{}", name, halves_.first), attention_, ln_1_, attention_is_split_);
    add(fmt::format("{}.{}", name, halves_.second), perceptron_, ln_2_, perceptron_is_split_);
    member_ = splitter.member();
    return steps;
  }
  /// The halves as layers whose rows can be chosen.
  std::vector<parallel::SplitCandidate> candidates(const std::string& name, double between,
                                                   int members) const {
    const auto candidate = [&](const std::string& half, const auto& layers) {
      parallel::SplitCandidate layer{
          .name = fmt::format("{}.{}", name, half), .inputs = between, .outputs = between, .rows = {}};
      for (const at::Tensor& tensor : layers->parameters())
        layer.weights += static_cast<double>(tensor.numel());
      if (layers->divides(members))
        layer.rows = {&parallel::find_split("pairs"), &parallel::find_split("samples")};
      else
        layer.rows = {&parallel::find_split("none")};
      return layer;
    };
    return {candidate(halves_.first, attention_), candidate(halves_.second, perceptron_)};
  }
  /// Where these are split the sum of what members give has their input once.
  at::Tensor attention(const at::Tensor& input) {
    const at::Tensor made = attention_(ln_1_(input));
    return attention_is_split_ && member_ > 0 ? made : input + made;
  }
  at::Tensor perceptron(const at::Tensor& input) {
    const at::Tensor made = perceptron_(ln_2_(input));
    return perceptron_is_split_ && member_ > 0 ? made : input + made;
  }

 private:
  LayerNorm ln_1_;
  Attention attention_;
  LayerNorm ln_2_;
  PerceptronLayers perceptron_;
  std::pair<std::string, std::string> halves_;
  bool attention_is_split_ = false, perceptron_is_split_ = false;
  int member_ = 0;
};
TORCH_MODULE(Block);

class TransformerNetwork final : public Network {
 public:
  TransformerNetwork(std::shared_ptr<torch::nn::Module> module, const TransformerOptions& options,
                     std::vector<TransformerEnd> before, const TransformerBlocks& blocks,
                     std::vector<TransformerEnd> after)
      : module_(std::move(module)),
        has_dropout_(options.dropout > 0),
        before_(std::move(before)),
        after_(std::move(after)) {
    for (const TransformerEnd& end : before_) names_.push_back(end.name);
    for (int i = 0; i < options.layers; ++i) {
      const std::string child = fmt::format("{}{}", blocks.child, i);
      blocks_.push_back(blocks.list->register_module(child, Block(options, blocks)));
      names_.push_back(fmt::format("{}{}", blocks.name, i));
    }
    for (const TransformerEnd& end : after_) names_.push_back(end.name);
  }

  std::vector<NamedTensor> parameters() const override { return listed(module_->named_parameters()); }
  std::vector<NamedTensor> buffers() const override { return {}; }
  std::vector<std::string> stages() const override { return names_; }
  std::vector<at::Tensor> borrowed(int stage) const override {
    const TransformerEnd* end = end_of(stage);
    return end ? end->borrowed : std::vector<at::Tensor>();
  }
  at::Tensor forward(int stage, at::Tensor inputs) override {
    if (const TransformerEnd* end = end_of(stage)) return end->forward(inputs);
    return block_of(stage).forward(inputs);
  }
  NetworkSplit split(Splitter splitter) override {
    if (splitter.chooses()) splitter.choose(candidates(splitter));
    if (has_dropout_) splitter.refuse("members would drop different activations; leave model.dropout out");
    std::vector<std::vector<NetworkStep>> stages;
    for (int stage = 0; stage < static_cast<int>(names_.size()); ++stage) {
      const std::string& name = names_[static_cast<std::size_t>(stage)];
      const TransformerEnd* end = end_of(stage);
      if (!end) {
        stages.push_back(block_of(stage).split(name, splitter));
        continue;
      }
      stages.push_back(split_end(*end, splitter));
    }
    return splitter.finish(std::move(stages));
  }
  at::Tensor forward(int stage, int step, at::Tensor inputs, const at::Tensor&) override {
    if (const TransformerEnd* end = end_of(stage)) {
      if (!has_logits_apart(*end)) return end->forward(inputs);
      return step == 0 ? end->before_logits(inputs) : end->vocabulary->logits(inputs);
    }
    return step == 0 ? block_of(stage).attention(inputs) : block_of(stage).perceptron(inputs);
  }
  void set_mode(Mode mode) override { module_->train(mode == Mode::Train); }
  void cast(at::ScalarType type) override { cast_floating(parameters(), type); }
  void offer(const at::Tensor&, GradientTarget*) override {}
  ErrorKind fault() const override { return ErrorKind::Internal; }

 private:
  static bool has_logits_apart(const TransformerEnd& end) {
    return end.before_logits && end.vocabulary->is_split();
  }
  static std::vector<NetworkStep> split_end(const TransformerEnd& end, Splitter& splitter) {
    const parallel::SplitRow* wanted = splitter.wanted(end.name);
    const bool looks_up = end.vocabulary && !end.before_logits;
    const bool by_tokens = looks_up && end.vocabulary->divides(splitter.members());
    if (!wanted) wanted = &parallel::find_split(by_tokens ? "vocabulary" : "none");
    std::vector<NetworkStep> steps = {{end.name, wanted, end.parameters}};
    if (has_logits_apart(end)) {
      splitter.keep_whole(steps.front());
      steps.push_back({end.name + ".logits", &parallel::find_split("outputs"), end.borrowed});
      splitter.leave_classes();
      return steps;
    }
    for (const at::Tensor& tensor : end.borrowed) steps.front().parameters.push_back(tensor);
    // Parts of a matrix, of which tokens that everybody has make summands.
    const bool is_split = wanted->of_matrices == 0 && wanted->input == parallel::kReplicated &&
                          wanted->output == parallel::kPartial;
    if (looks_up && is_split)
      end.vocabulary->split(end.name, splitter);
    else
      splitter.keep_whole(steps.front());
    return steps;
  }
  /// Null: the stage is a block.
  const TransformerEnd* end_of(int stage) const {
    const auto at = static_cast<std::size_t>(stage);
    if (at < before_.size()) return &before_[at];
    const std::size_t behind = before_.size() + blocks_.size();
    return at < behind ? nullptr : &after_[at - behind];
  }
  BlockImpl& block_of(int stage) const { return *blocks_[static_cast<std::size_t>(stage) - before_.size()]; }
  std::vector<parallel::SplitCandidate> candidates(const Splitter& splitter) {
    at::NoGradGuard no_grad;
    module_->eval();
    std::vector<parallel::SplitCandidate> layers;
    at::Tensor passing = splitter.sample();
    for (int stage = 0; stage < static_cast<int>(names_.size()); ++stage) {
      const std::string& name = names_[static_cast<std::size_t>(stage)];
      const auto entered = static_cast<double>(passing.numel());
      const TransformerEnd* end = end_of(stage);
      if (!end) {
        for (auto& half : block_of(stage).candidates(name, entered, splitter.members()))
          layers.push_back(std::move(half));
        continue;
      }
      passing = end->forward(passing);
      parallel::SplitCandidate& layer =
          layers.emplace_back(parallel::SplitCandidate{.name = name,
                                                       .inputs = entered,
                                                       .outputs = static_cast<double>(passing.numel()),
                                                       .rows = {&parallel::find_split("none")}});
      for (const at::Tensor& tensor : end->parameters) layer.weights += static_cast<double>(tensor.numel());
    }
    return layers;
  }

  std::shared_ptr<torch::nn::Module> module_;
  const bool has_dropout_;
  std::vector<TransformerEnd> before_, after_;
  std::vector<std::shared_ptr<BlockImpl>> blocks_;
  std::vector<std::string> names_;  // of the stages
};

}  // namespace

void Vocabulary::split(const std::string& name, Splitter& splitter) {
  const int members = splitter.members();
  if (!divides(members))
    splitter.refuse(fmt::format("{} has {} tokens, which {} members can't share equally", name,
                                weight_.size(0), members));
  splitter.cut_blocks(weight_, 0, 1);
  first_ = weight_.size(0) / members * splitter.member();
  is_split_ = true;
}

at::Tensor Vocabulary::look_up(const at::Tensor& tokens) const {
  if (!is_split_) return at::embedding(weight_, tokens);
  const at::Tensor own = tokens - first_, others = (own < 0).logical_or(own >= weight_.size(0));
  return at::embedding(weight_, own.masked_fill(others, 0)).masked_fill(others.unsqueeze(-1), 0);
}

std::span<const plan::PlanRule> transformer_rules() {
  static constexpr plan::PlanRule kRules[] = {{"model.heads", "must divide model.width", heads_divide}};
  return kRules;
}

std::unique_ptr<Network> make_transformer(std::shared_ptr<torch::nn::Module> module,
                                          const TransformerOptions& options,
                                          std::vector<TransformerEnd> before, const TransformerBlocks& blocks,
                                          std::vector<TransformerEnd> after) {
  return std::make_unique<TransformerNetwork>(std::move(module), options, std::move(before), blocks,
                                              std::move(after));
}

LayerNorm make_norm(std::int64_t width, double epsilon) {
  return LayerNorm(torch::nn::LayerNormOptions({width}).eps(epsilon));
}

}  // namespace taxon::model
