#pragma once

#include <torch/nn.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "model/torch/network.h"
#include "plan/catalogue.h"
#include "plan/field.h"

namespace taxon::model {

/// What transformers of every kind have keys for.
struct TransformerOptions {
  int layers = 4;
  int width = 128;
  int heads = 4;
  double dropout = 0;
};
template <plan::Like<TransformerOptions> O, class V>
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
  visit(plan::Field{.key = "dropout",
                    .sentence = "Of embeddings, attention and what blocks add; 0: none.",
                    .min = 0,
                    .max = 1,
                    .below_max = true},
        o.dropout);
}

/// Of options that have these and others.
template <class O>
auto& transformer_part(O& o) {
  return static_cast<std::conditional_t<std::is_const_v<O>, const TransformerOptions, TransformerOptions>&>(
      o);
}

/// Heads divide the width.
std::span<const plan::PlanRule> transformer_rules();

/// Which linear layer of a block: to queries, keys and values, from the heads' mixtures, to hidden features
/// and from them.
enum class BlockLayer { Qkv, Out, Up, Down };

enum class Attends { ToAll, ToEarlier };  // a token, beside itself

/// The blocks of a transformer: norms stand before what they are for, so that the sum of all blocks passes
/// unchanged (Radford et al., 2019).
struct TransformerBlocks {
  std::string name;                         // of the stage of block i: this and i
  std::shared_ptr<torch::nn::Module> list;  // whose children they become
  std::string child = {};                   // before i, as `list` names them
  Attends attends = Attends::ToAll;
  double epsilon = 1e-5;  // of norms
  struct Names {
    const char* attention;
    const char* qkv;  // null: it is the attention's own, as torch.nn.MultiheadAttention's
    const char* out;
    const char* perceptron;
    const char* up;
    const char* down;
  } names;
  /// A layer of `in` and `out` features with its initial values.
  std::function<torch::nn::Linear(BlockLayer, std::int64_t in, std::int64_t out)> make_linear;
};

/// A weight with a row for each token of a vocabulary, which tokens are looked up in and with which logits
/// are products: members of a tensor axis may have some rows each (Shoeybi et al., arXiv 1909.08053).
class Vocabulary {
 public:
  explicit Vocabulary(at::Tensor weight) : weight_(std::move(weight)) {}
  const at::Tensor& weight() const { return weight_; }
  bool divides(int members) const { return weight_.size(0) % members == 0; }
  void split(const std::string& name, Splitter& splitter);
  bool is_split() const { return is_split_; }
  /// Where it is split a summand: others' tokens are zeros.
  at::Tensor look_up(const at::Tensor& tokens) const;
  /// Where it is split those of the member's tokens.
  at::Tensor logits(const at::Tensor& inputs) const { return at::linear(inputs, weight_); }

 private:
  at::Tensor weight_;
  std::int64_t first_ = 0;  // token of the member's
  bool is_split_ = false;
};

/// A stage before the blocks or behind them.
struct TransformerEnd {
  std::string name;
  std::vector<at::Tensor> parameters;  // its own
  std::function<at::Tensor(const at::Tensor&)> forward;
  std::vector<at::Tensor> borrowed = {};  // that it reads beside them
  /// It looks tokens up there, or ends in their logits. Null: neither.
  std::shared_ptr<Vocabulary> vocabulary = nullptr;
  std::function<at::Tensor(const at::Tensor&)> before_logits = nullptr;  // of a stage that ends in them
};

/// Divided over members, halves of blocks are split by heads and hidden features, or by samples; ends are
/// computed by all members, or by samples; those of a vocabulary by its tokens where members can share them.
/// A stage that looks tokens up stands before the one that ends in their logits.
std::unique_ptr<Network> make_transformer(std::shared_ptr<torch::nn::Module> module,
                                          const TransformerOptions& options,
                                          std::vector<TransformerEnd> before, const TransformerBlocks& blocks,
                                          std::vector<TransformerEnd> after);

torch::nn::LayerNorm make_norm(std::int64_t width, double epsilon = 1e-5);

}  // namespace taxon::model
