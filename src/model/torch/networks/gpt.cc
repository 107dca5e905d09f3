#include <fmt/format.h>
#include <torch/nn.h>

#include <cmath>

#include "base/error.h"
#include "model/torch/networks/row.h"
#include "model/torch/networks/transformer.h"
#include "plan/field.h"

namespace taxon::model {
namespace {

using torch::nn::Embedding;
using torch::nn::Linear;

struct GptOptions : TransformerOptions {
  int context = 0;
};
template <plan::Like<GptOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit_fields(transformer_part(o), visit);
  visit(
      plan::Field{.key = "context",
                  .sentence = "Tokens of a window, data.context; 0: as many as the data set's windows have.",
                  .min = 0,
                  .max = 1 << 20},
      o.context);
}

/// Of weights, and of biases none: normal with this deviation, as published with GPT-2.
constexpr double kDeviation = 0.02;

/// Radford et al., "Language models are unsupervised multitask learners", 2019 (GPT-2): its names of
/// parameters but for a common prefix, its initial values, linear weights as torch::nn::Linear has them.
/// Logits are products with the embedding of tokens, which is thus an input's and an output's weight.
std::unique_ptr<Network> make_gpt(const ModelContext& context) {
  const auto options = context.plan->options.read<GptOptions>();
  const std::int64_t window = context.shape.elements();
  if (options.context != 0 && options.context != window)
    throw Error(
        ErrorKind::Usage,
        fmt::format("model.context: is {}, and windows of the data set have {} tokens; make data.context "
                    "the same, or leave model.context out",
                    options.context, window));
  const auto module = std::make_shared<torch::nn::Module>();
  const auto wte = module->register_module("wte", Embedding(context.shape.classes, options.width));
  const auto wpe = module->register_module("wpe", Embedding(window, options.width));
  for (const auto& embedding : {wte, wpe}) torch::nn::init::normal_(embedding->weight, 0, kDeviation);
  // What 2 * layers blocks add to a token has the deviation of one.
  const double residual = kDeviation / std::sqrt(2.0 * options.layers);
  const TransformerBlocks blocks{.name = "h.",
                                 .list = module->register_module("h", std::make_shared<torch::nn::Module>()),
                                 .attends = Attends::ToEarlier,
                                 .names = {"attn", "c_attn", "c_proj", "mlp", "c_fc", "c_proj"},
                                 .make_linear = [=](BlockLayer layer, std::int64_t in, std::int64_t out) {
                                   Linear linear(in, out);
                                   const bool ends = layer == BlockLayer::Out || layer == BlockLayer::Down;
                                   torch::nn::init::normal_(linear->weight, 0, ends ? residual : kDeviation);
                                   torch::nn::init::zeros_(linear->bias);
                                   return linear;
                                 }};
  const auto ln_f = module->register_module("ln_f", make_norm(options.width));
  const auto vocabulary = std::make_shared<Vocabulary>(wte->weight);
  const auto norm = [ln_f](const at::Tensor& inputs) { return ln_f->forward(inputs); };
  // The embedding of positions is a stage of its own, as a stage's parameters have its name.
  return make_transformer(
      module, options,
      {{.name = "wte",
        .parameters = wte->parameters(),
        .forward = [vocabulary](const at::Tensor& tokens) { return vocabulary->look_up(tokens); },
        .vocabulary = vocabulary},
       {"wpe", wpe->parameters(),
        [wpe, dropout = options.dropout](const at::Tensor& inputs) {
          const at::Tensor positions = at::arange(inputs.size(1), at::kLong);
          return at::dropout(inputs + wpe->forward(positions), dropout, wpe->is_training());
        }}},
      blocks,
      {{.name = "ln_f",
        .parameters = ln_f->parameters(),
        .forward = [=](const at::Tensor& inputs) { return vocabulary->logits(norm(inputs)); },
        .borrowed = {wte->weight},
        .vocabulary = vocabulary,
        .before_logits = norm}});
}

}  // namespace

ModelRow gpt() {
  return {.name = "gpt",
          .sentence =
              "Transformer for language (GPT-2): norms first, GELU, logits by the embedding of tokens; "
              "0.84 M parameters with 4 layers of 128 on bytes.",
          .make = build<make_gpt>,
          .takes_tokens = true,
          .options = plan::option_keys<GptOptions>,
          .rules = transformer_rules()};
}

}  // namespace taxon::model
