#include "parallel/balance.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/error.h"

namespace taxon::parallel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const LayerBalance& line(const std::vector<LayerBalance>& lines, std::string_view name) {
  for (const LayerBalance& one : lines)
    if (one.layer->name == name) return one;
  throw Error(ErrorKind::Usage, "no such layer");
}

TEST(Balance, HasThePapersRatiosOfConvolutions) {
  // 1.5 out_w out_h for each sample of a worker, whatever kernels, channels and strides are.
  const Network vgg = make_network(find_network("vgg-a"));
  const BalanceInput input{.workers = 64, .batch = 64, .overlap = 1};
  const double expected[] = {75264, 18816, 4704, 4704, 1176, 1176, 294, 294};
  const auto lines = balance(vgg, input);
  for (std::size_t i = 0; i < std::size(expected); ++i)
    EXPECT_DOUBLE_EQ(lines[i].data_ratio().value(), expected[i]) << lines[i].layer->name;
  const Network overfeat = make_network(find_network("overfeat-fast"));
  const auto others = balance(overfeat, input);
  const double their[] = {4704, 864, 216, 216, 216};
  for (std::size_t i = 0; i < std::size(their); ++i)
    EXPECT_DOUBLE_EQ(others[i].data_ratio().value(), their[i]);
}

TEST(Balance, HasThePapersRatiosOfNetworks) {
  // All convolutions together: 1218 and 251 for an image, by the shapes.
  const auto together = [](std::string_view name) {
    const Network network = make_network(find_network(name));
    double flops = 0, bytes = 0;
    for (const LayerBalance& one : balance(network, {.workers = 64, .batch = 64, .overlap = 1})) {
      if (!one.layer->name.starts_with("conv")) continue;
      flops += one.flops;
      bytes += one.data_bytes;
    }
    return flops / bytes;
  };
  EXPECT_NEAR(together("vgg-a"), 1218, 0.5);
  EXPECT_NEAR(together("overfeat-fast"), 251, 0.5);
}

TEST(Balance, HasThePapersBytesOfTheLargestLayers) {
  const Network vgg = make_network(find_network("vgg-a"));
  const auto lines = balance(vgg, {.workers = 128, .batch = 512});
  const LayerBalance& fc6 = line(lines, "fc6");
  EXPECT_NEAR(fc6.data_bytes, 822e6, 0.5e6);
  EXPECT_NEAR(fc6.model_bytes, 102.8e6, 0.1e6);
  EXPECT_NEAR(exchanged_bytes(*fc6.layer, {.workers = 128, .batch = 512}, 4), 51.4e6, 0.1e6);
  EXPECT_DOUBLE_EQ(fc6.ideal_groups, 4);
  EXPECT_EQ(fc6.groups, 4);
  EXPECT_EQ(fc6.split, Split::Hybrid);
  EXPECT_EQ(line(lines, "conv1").split, Split::Data);

  const Network overfeat = make_network(find_network("overfeat-fast"));
  const BalanceInput input{.workers = 64, .batch = 256};
  const LayerBalance& other = line(balance(overfeat, input), "fc6");
  EXPECT_NEAR(other.data_bytes, 906e6, 0.5e6);
  EXPECT_NEAR(other.model_bytes, 75.5e6, 0.1e6);
  EXPECT_NEAR(other.bytes, 66.1e6, 0.1e6);
  EXPECT_EQ(other.groups, 2);
}

TEST(Balance, IdealGroupsAreThePapers) {
  // sqrt(N B / outputs) for linear layers.
  const auto ideal = [](int workers, int batch) {
    const Network network{.layers = {linear("fc", {4096, 4096})}};
    return balance(network, {.workers = workers, .batch = batch}).front().ideal_groups;
  };
  EXPECT_DOUBLE_EQ(ideal(64, 256), 2);
  EXPECT_DOUBLE_EQ(ideal(128, 256), std::sqrt(8.0));
  EXPECT_DOUBLE_EQ(ideal(128, 512), 4);
}

TEST(Balance, TiesWithModelParallelismWhereTheIdealIsTwo) {
  const Network network{.layers = {linear("fc", {4096, 4096})}};
  const BalanceInput input{.workers = 64, .batch = 256};
  EXPECT_DOUBLE_EQ(exchanged_bytes(network.layers[0], input, 2),
                   exchanged_bytes(network.layers[0], input, 1));
  EXPECT_EQ(balance(network, input).front().groups, 2);  // which splits less
}

TEST(Balance, ChoosesTheBestOfAllDivisors) {
  for (int workers : {1, 2, 6, 12, 16, 60, 64})
    for (std::int64_t batch : {64, 100, 1024}) {
      for (const NetworkRow& row : network_table()) {
        const Network network = make_network(row);
        const BalanceInput input{.workers = workers, .batch = batch};
        if (!balance_problems(network, input).empty()) continue;
        for (const LayerBalance& one : balance(network, input)) {
          if (one.layer->weights == 0) continue;
          ASSERT_EQ(workers % one.groups, 0);
          for (int groups = 1; groups <= workers; ++groups)
            if (workers % groups == 0 && is_possible(*one.layer, input, groups)) {
              EXPECT_LE(one.bytes, exchanged_bytes(*one.layer, input, groups)) << one.layer->name;
            }
        }
      }
    }
}

TEST(Balance, NeighboursOfTheIdealMayMissTheEnds) {
  // The ends have one term each: all groups may be better than what stands beside the minimum of the sum.
  const Network network{.layers = {linear("fc", {4096, 64})}};
  const auto lines = balance(network, {.workers = 2, .batch = 64});
  EXPECT_DOUBLE_EQ(lines[0].ideal_groups, std::sqrt(2.0));
  EXPECT_EQ(lines[0].groups, lines[0].rounded_groups);
  const Network tall{.layers = {linear("fc", {1024, 1024})}};
  const auto other = balance(tall, {.workers = 64, .batch = 64});  // ideal 2: 2 ties with 1
  EXPECT_DOUBLE_EQ(other[0].ideal_groups, 2);
}

TEST(Balance, OneWorkerSendsNothing) {
  const Network vgg = make_network(find_network("vgg-a"));
  for (const LayerBalance& one : balance(vgg, {.workers = 1, .batch = 8})) EXPECT_EQ(one.groups, 1);
}

TEST(Balance, KeepsToTheFeaturesAndSamplesThatThereAre) {
  const Network narrow{.layers = {linear("fc", {4096, 10})}};
  const auto lines = balance(narrow, {.workers = 64, .batch = 64});
  EXPECT_LE(64 / lines[0].groups, 10);
  try {
    balance(narrow, {.workers = 64, .batch = 2});  // at most 2 groups of 32, and 10 features
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(
        error.what(),
        HasSubstr("layer fc cannot be given to 64 workers: a batch of 2 feeds at most 2 groups, and it "
                  "can be split into at most 10 parts"));
  }
}

TEST(Balance, LayersWithoutWeightsFollow) {
  const Network gpt = make_network(find_network("gpt"));
  const auto lines = balance(gpt, {.workers = 8, .batch = 64});
  for (std::size_t i = 1; i < lines.size(); ++i)
    if (lines[i].layer->weights == 0) {
      EXPECT_EQ(lines[i].split, lines[i - 1].split);
      EXPECT_EQ(lines[i].groups, lines[i - 1].groups);
      EXPECT_FALSE(lines[i].data_ratio());
      // Logits read the embedding's weights, and what they read of a divided layer must be gathered.
      const bool gathers = lines[i].layer->exchanged > 0 && lines[i].groups < 8;
      EXPECT_EQ(lines[i].bytes > 0, gathers) << lines[i].layer->name;
    }
}

TEST(Balance, MistakesComeTogether) {
  try {
    balance({}, {.workers = 0, .batch = 0, .overlap = 2});
    FAIL();
  } catch (const Error& error) {
    for (const char* part : {"workers must be at least 1", "the batch must have a sample", "overlap must be"})
      EXPECT_THAT(error.what(), HasSubstr(part));
  }
}

TEST(Divisors, AreAll) {
  EXPECT_THAT(divisors(12), ElementsAre(1, 2, 3, 4, 6, 12));
  EXPECT_THAT(divisors(9), ElementsAre(1, 3, 9));
  EXPECT_THAT(divisors(2'147'483'647), ElementsAre(1, 2'147'483'647));
}

}  // namespace
}  // namespace taxon::parallel
