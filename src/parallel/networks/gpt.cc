#include <fmt/format.h>

#include "base/error.h"
#include "parallel/network.h"

namespace taxon::parallel {
namespace {

struct GptOptions {
  int layers = 12;
  int width = 768;
  int heads = 12;
  int context = 1024;
  int vocabulary = 50257;
};
template <plan::Like<GptOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(
      plan::Field{.key = "layers", .sentence = "Blocks of attention and perceptron.", .min = 1, .max = 1024},
      o.layers);
  visit(plan::Field{.key = "width", .sentence = "Features of a token.", .min = 1, .max = 1 << 20}, o.width);
  visit(plan::Field{.key = "heads", .sentence = "Of an attention; they divide width.", .min = 1, .max = 1024},
        o.heads);
  visit(plan::Field{.key = "context", .sentence = "Tokens of a sample.", .min = 1, .max = 1 << 20},
        o.context);
  visit(plan::Field{.key = "vocabulary", .sentence = "Tokens that there are.", .min = 1, .max = 1 << 24},
        o.vocabulary);
}

/// A linear layer whose input is split by heads or is what a split layer made.
Layer of_heads(Layer layer, int heads) {
  layer.ways = heads;
  return layer;
}

/// Scores and weighted sums of all heads; without parameters. Nothing is exchanged where heads are split.
Layer attention(std::string name, const GptOptions& o) {
  const double tokens = o.context, width = o.width;
  return {.name = std::move(name),
          .shape = fmt::format("{} heads of {}, {} tokens", o.heads, o.width / o.heads, o.context),
          .macs = 2 * tokens * tokens * width,
          .outputs = std::int64_t{o.width} * o.context,
          .ways = o.heads};
}

/// Tokens and positions. The logits use the same weights again.
Layer embedding(const GptOptions& o) {
  return {.name = "embedding",
          .shape = fmt::format("{} tokens and {} positions to {}", o.vocabulary, o.context, o.width),
          .weights = std::int64_t{o.vocabulary} * o.width,
          .vectors = std::int64_t{o.context} * o.width,
          .exchanged = std::int64_t{o.width} * o.context,
          .outputs = std::int64_t{o.width} * o.context,
          .ways = o.vocabulary};
}

Layer logits(const GptOptions& o) {
  Layer layer = linear("logits", {o.width, o.vocabulary, o.context});
  layer.weights = 0;  // the embedding's
  layer.vectors = 2 * o.width;
  return layer;
}

Network make(const GptOptions& o) {
  if (o.width % o.heads != 0)
    throw Error(ErrorKind::Usage,
                fmt::format("heads must divide width: {} heads do not divide {}", o.heads, o.width));
  Network network{.name = "gpt", .sample = "sequence"};
  network.layers.push_back(embedding(o));
  for (int block = 0; block < o.layers; ++block) {
    const auto name = [&](std::string_view part) { return fmt::format("block{}.{}", block, part); };
    Layer qkv = linear(name("qkv"), {o.width, 3 * o.width, o.context});
    Layer up = linear(name("up"), {o.width, 4 * o.width, o.context});
    for (Layer* normed : {&qkv, &up}) normed->vectors += 2 * o.width;
    network.layers.push_back(of_heads(qkv, o.heads));
    network.layers.push_back(attention(name("attention"), o));
    network.layers.push_back(of_heads(linear(name("projection"), {o.width, o.width, o.context}), o.heads));
    network.layers.push_back(up);
    network.layers.push_back(linear(name("down"), {4 * o.width, o.width, o.context}));
  }
  network.layers.push_back(logits(o));
  return network;
}

}  // namespace

/// Radford et al., "Language models are unsupervised multitask learners", 2019 (GPT-2): blocks with norms
/// before attention and perceptron, one table for embedding and logits.
NetworkRow gpt() {
  return network_row<GptOptions>({.name = "gpt",
                                  .sentence = "a decoder of attention and perceptrons",
                                  .source = "Radford et al., 2019",
                                  .batch = 512},
                                 [](const GptOptions& options) { return make(options); });
}

}  // namespace taxon::parallel
