#include <fmt/format.h>
#include <torch/nn.h>

#include <cmath>

#include "base/error.h"
#include "model/torch/networks/layers.h"
#include "model/torch/networks/row.h"
#include "model/torch/networks/transformer.h"
#include "plan/field.h"

namespace taxon::model {
namespace {

using torch::nn::Conv2d;
using torch::nn::Linear;
namespace init = torch::nn::init;

struct VitOptions : TransformerOptions {
  int patch = 4;
};
template <plan::Like<VitOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit_fields(transformer_part(o), visit);
  visit(plan::Field{.key = "patch",
                    .sentence = "Height and width of the squares that an image is cut into, each a token; it "
                                "divides the image's.",
                    .min = 1,
                    .max = 1024},
        o.patch);
}

void require_patches(const data::SampleShape& shape, int patch) {
  require_images(shape, "vit", 1);
  if (shape.input[1] % patch == 0 && shape.input[2] % patch == 0) return;
  throw Error(ErrorKind::Usage,
              fmt::format("model.patch: is {}, and images of the data set are {} x {}, which it does not "
                          "divide; take another patch, or images of another size",
                          patch, shape.input[1], shape.input[2]));
}

/// Normal between -2 and 2, as torch.nn.init.trunc_normal_ draws it: by the inverse of its distribution.
void truncated_normal(at::Tensor weight, double deviation) {
  torch::NoGradGuard no_grad;
  const double within = std::erf(2 / (deviation * std::sqrt(2.0)));
  weight.uniform_(-within, within).erfinv_().mul_(deviation * std::sqrt(2.0)).clamp_(-2, 2);
}

Linear make_linear(BlockLayer layer, std::int64_t in, std::int64_t out) {
  Linear linear(in, out);
  if (layer != BlockLayer::Out) init::xavier_uniform_(linear->weight);
  if (layer == BlockLayer::Up || layer == BlockLayer::Down)
    init::normal_(linear->bias, 0, 1e-6);
  else
    init::zeros_(linear->bias);
  return linear;
}

/// Dosovitskiy et al., "An image is worth 16x16 words", ICLR 2021, with the names of parameters, the initial
/// values and the norms of torchvision's VisionTransformer. A token that all images share stands before the
/// patches; what becomes of it makes the logits.
std::unique_ptr<Network> make_vit(const ModelContext& context) {
  const auto options = context.plan->options.read<VitOptions>();
  const data::SampleShape& shape = context.shape;
  require_patches(shape, options.patch);
  const std::int64_t channels = shape.input[0], width = options.width;
  const std::int64_t tokens = 1 + (shape.input[1] / options.patch) * (shape.input[2] / options.patch);
  constexpr double kEpsilon = 1e-6;

  const auto module = std::make_shared<torch::nn::Module>();
  const at::Tensor class_token = module->register_parameter("class_token", at::zeros({1, 1, width}));
  const auto conv_proj = module->register_module(
      "conv_proj", Conv2d(torch::nn::Conv2dOptions(channels, width, options.patch).stride(options.patch)));
  truncated_normal(conv_proj->weight,
                   std::sqrt(1.0 / static_cast<double>(channels * options.patch * options.patch)));
  init::zeros_(conv_proj->bias);
  const auto encoder = module->register_module("encoder", std::make_shared<torch::nn::Module>());
  const at::Tensor positions =
      encoder->register_parameter("pos_embedding", at::empty({1, tokens, width}).normal_(0, 0.02));
  const TransformerBlocks blocks{
      .name = "encoder.layers.encoder_layer_",
      .list = encoder->register_module("layers", std::make_shared<torch::nn::Module>()),
      .child = "encoder_layer_",
      .epsilon = kEpsilon,
      .names = {"self_attention", nullptr, "out_proj", "mlp", "0", "3"},
      .make_linear = make_linear};
  const auto ln = encoder->register_module("ln", make_norm(width, kEpsilon));
  const auto heads = module->register_module("heads", std::make_shared<torch::nn::Module>());
  const auto head = heads->register_module("head", Linear(width, shape.classes));
  for (const at::Tensor& tensor : head->parameters()) init::zeros_(tensor);

  const auto cut = [conv_proj](const at::Tensor& images) {
    return conv_proj->forward(images).flatten(2).transpose(1, 2);
  };
  const auto begin = [class_token](const at::Tensor& patches) {
    return at::cat({class_token.expand({patches.size(0), -1, -1}), patches}, 1);
  };
  const auto place = [positions, encoder, dropout = options.dropout](const at::Tensor& tokens) {
    return at::dropout(tokens + positions, dropout, encoder->is_training());
  };
  const auto take_first = [ln](const at::Tensor& tokens) { return ln->forward(tokens.select(1, 0)); };
  const auto classify = [head](const at::Tensor& token) { return head->forward(token); };
  return make_transformer(
      module, options,
      {{"conv_proj", conv_proj->parameters(), cut},
       {"class_token", {class_token}, begin},
       {"encoder.pos_embedding", {positions}, place}},
      blocks, {{"encoder.ln", ln->parameters(), take_first}, {"heads", head->parameters(), classify}});
}

}  // namespace

ModelRow vit() {
  return {.name = "vit",
          .sentence =
              "Transformer for images (ViT): patches as tokens, norms first, GELU, logits by a class "
              "token; 0.80 M parameters with 4 layers of 128 on 28 x 28 inputs.",
          .make = build<make_vit>,
          .options = plan::option_keys<VitOptions>,
          .rules = transformer_rules()};
}

}  // namespace taxon::model
