// The six models of "RPC Considered Harmful" (arXiv 1805.08430), by the shapes that give the sizes and
// numbers of variables that the paper prints: TF-slim's networks with 10 classes, a cell of 1024 units with
// an output of 1000, and a multilayer perceptron on MNIST.
#include "side/steps.h"

namespace taxon::bench {
namespace {

using Sizes = std::vector<std::size_t>;

void weights_and_bias(Sizes& sizes, std::size_t in, std::size_t out) {
  sizes.push_back(in * out);
  sizes.push_back(out);
}

Sizes alexnet() {
  Sizes sizes;
  const std::size_t layers[][2] = {{11 * 11 * 3, 64},  {5 * 5 * 64, 192},  {3 * 3 * 192, 384},
                                   {3 * 3 * 384, 384}, {3 * 3 * 384, 256}, {5 * 5 * 256, 4096},
                                   {4096, 4096},       {4096, 10}};
  for (const auto& [in, out] : layers) weights_and_bias(sizes, in, out);
  return sizes;
}

Sizes vggnet() {
  Sizes sizes;
  std::size_t in = 3;
  for (const std::size_t out : {64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512}) {
    weights_and_bias(sizes, 3 * 3 * in, out);
    in = out;
  }
  weights_and_bias(sizes, 7 * 7 * 512, 4096);
  weights_and_bias(sizes, 4096, 4096);
  weights_and_bias(sizes, 4096, 10);
  return sizes;
}

/// A convolution with batch normalisation has weights and an offset, as a plain one has weights and a bias.
struct Inception {
  Sizes sizes;

  std::size_t conv(std::size_t area, std::size_t in, std::size_t out) {
    weights_and_bias(sizes, area * in, out);
    return out;
  }
  std::size_t chain(std::size_t in, std::initializer_list<std::pair<std::size_t, std::size_t>> layers) {
    for (const auto& [area, out] : layers) in = conv(area, in, out);
    return in;
  }
  std::size_t block_a(std::size_t in, std::size_t pooled) {
    chain(in, {{1, 64}});
    chain(in, {{1, 48}, {25, 64}});
    chain(in, {{1, 64}, {9, 96}, {9, 96}});
    chain(in, {{1, pooled}});
    return 64 + 64 + 96 + pooled;
  }
  void block_b(std::size_t width) {
    chain(768, {{1, 192}});
    chain(768, {{1, width}, {7, width}, {7, 192}});
    chain(768, {{1, width}, {7, width}, {7, width}, {7, width}, {7, 192}});
    chain(768, {{1, 192}});
  }
  void block_c(std::size_t in) {
    chain(in, {{1, 320}});
    chain(in, {{1, 384}});
    chain(384, {{3, 384}});
    chain(384, {{3, 384}});
    chain(in, {{1, 448}, {9, 384}});
    chain(384, {{3, 384}});
    chain(384, {{3, 384}});
    chain(in, {{1, 192}});
  }
};

Sizes inception() {
  Inception net;
  std::size_t width = net.chain(3, {{9, 32}, {9, 32}, {9, 64}, {1, 80}, {9, 192}});
  for (const std::size_t pooled : {32, 64, 64}) width = net.block_a(width, pooled);
  net.chain(width, {{9, 384}});
  net.chain(width, {{1, 64}, {9, 96}, {9, 96}});
  for (const std::size_t inner : {128, 160, 160, 192}) net.block_b(inner);
  net.chain(768, {{1, 192}, {9, 320}});
  net.chain(768, {{1, 192}, {7, 192}, {7, 192}, {9, 192}});
  net.block_c(1280);
  net.block_c(2048);
  net.chain(768, {{1, 128}, {25, 768}, {1, 10}});  // the auxiliary classifier
  net.chain(2048, {{1, 10}});
  return net.sizes;
}

Sizes recurrent(int gates) {
  Sizes sizes;
  for (int gate = 0; gate < gates; ++gate) sizes.insert(sizes.end(), {1024 * 1024, 1024 * 1024, 1024});
  weights_and_bias(sizes, 1024, 1000);
  return sizes;
}

Sizes lstm() { return recurrent(4); }
Sizes gru() { return recurrent(3); }

Sizes perceptron() {
  Sizes sizes;
  std::size_t in = 784;
  for (const std::size_t out : {4096, 4096, 4096, 4096, 10}) {
    weights_and_bias(sizes, in, out);
    in = out;
  }
  return sizes;
}

}  // namespace

std::vector<std::size_t> variables_of(std::string_view model) {
  constexpr std::pair<std::string_view, Sizes (*)()> kModels[] = {
      {"AlexNet", alexnet}, {"VGGNet-16", vggnet}, {"Inception-v3", inception},
      {"LSTM", lstm},       {"GRU", gru},          {"FCN-5", perceptron}};
  for (const auto& [name, variables] : kModels)
    if (name == model) return variables();
  return {};
}

}  // namespace taxon::bench
