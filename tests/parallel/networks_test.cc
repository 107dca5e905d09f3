// Counts of the published networks.
#include <gmock/gmock.h>

#include "base/error.h"
#include "parallel/network.h"

namespace taxon::parallel {
namespace {

Network network(std::string_view name, const plan::Options& options = {}) {
  return make_network(find_network(name), options);
}

double macs(const Network& network, std::string_view prefix) {
  double sum = 0;
  for (const Layer& layer : network.layers)
    if (layer.name.starts_with(prefix)) sum += layer.macs;
  return sum;
}
std::int64_t weights(const Network& network, std::string_view prefix) {
  std::int64_t sum = 0;
  for (const Layer& layer : network.layers)
    if (layer.name.starts_with(prefix)) sum += layer.weights;
  return sum;
}

TEST(Networks, VggA) {
  const Network vgg = network("vgg-a");
  EXPECT_EQ(parameters(vgg), 132'863'336);  // torchvision's vgg11
  EXPECT_NEAR(static_cast<double>(weights(vgg, "conv")), 9.22e6, 0.005e6);
  EXPECT_NEAR(macs(vgg, "conv"), 7.485e9, 0.001e9);
  EXPECT_NEAR(forward_macs(vgg), 7.609e9, 0.001e9);
  EXPECT_NEAR(training_flops(vgg), 45.65e9, 0.01e9);
}

TEST(Networks, OverFeatFast) {
  const Network overfeat = network("overfeat-fast");
  EXPECT_NEAR(static_cast<double>(parameters(overfeat)), 145.9e6, 0.05e6);
  EXPECT_NEAR(static_cast<double>(weights(overfeat, "conv")), 15.98e6, 0.01e6);
  EXPECT_NEAR(macs(overfeat, "conv"), 2.671e9, 0.001e9);
  EXPECT_NEAR(forward_macs(overfeat), 2.801e9, 0.001e9);
  EXPECT_NEAR(training_flops(overfeat), 16.81e9, 0.005e9);
}

TEST(Networks, CdDnn) {
  const Network dnn = network("cd-dnn");
  EXPECT_NEAR(static_cast<double>(parameters(dnn)), 45.1e6, 0.05e6);
  EXPECT_NEAR(training_flops(dnn), 0.271e9, 0.001e9);
}

TEST(Networks, AlexNet) {
  EXPECT_EQ(parameters(network("alexnet")), 61'100'840);  // torchvision's
  EXPECT_NEAR(forward_macs(network("alexnet")), 0.714e9, 0.001e9);
}

TEST(Networks, Gpt) {
  EXPECT_EQ(parameters(network("gpt")), 124'439'808);  // GPT-2, the smallest
  EXPECT_EQ(parameters(network("gpt", {{"layers", 48}, {"width", 1600}, {"heads", 25}})), 1'557'611'200);
  // 2 N for each token, of the weights that multiply: all but positions, norms and biases, and attention.
  const Network gpt = network("gpt");
  const double tokens = 1024, multiply = 12 * 12.0 * 768 * 768 + 50257.0 * 768;
  EXPECT_NEAR(forward_macs(gpt), tokens * multiply + 12 * 2 * tokens * tokens * 768, 1);
}

TEST(Networks, EveryRowDescribesItself) {
  for (const NetworkRow& row : network_table()) {
    EXPECT_FALSE(row.sentence.empty());
    EXPECT_FALSE(row.source.empty());
    EXPECT_GT(row.batch, 0);
    const Network made = make_network(row);
    EXPECT_EQ(made.name, row.name);
    for (const Layer& layer : made.layers) {
      EXPECT_GE(layer.macs, 0) << layer.name;
      EXPECT_GT(layer.outputs, 0) << layer.name;
      EXPECT_GT(layer.ways, 0) << layer.name;
    }
  }
}

TEST(Networks, MistakesComeTogether) {
  try {
    network("gpt", {{"layer", 2}, {"width", "wide"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("layer is no key of network gpt; did you mean layers?"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("width must be a whole number"));
  }
  EXPECT_THROW(network("gpt", {{"heads", 7}}), Error);
  EXPECT_THROW(find_network("vgg"), Error);
}

}  // namespace
}  // namespace taxon::parallel
