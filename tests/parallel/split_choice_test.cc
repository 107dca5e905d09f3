#include "parallel/split_choice.h"

#include <gmock/gmock.h>

#include <random>

#include "base/error.h"

namespace taxon::parallel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<const SplitRow*> rows(std::initializer_list<std::string_view> names) {
  std::vector<const SplitRow*> found;
  for (std::string_view name : names) found.push_back(&find_split(name));
  return found;
}
const auto kLayer = {std::string_view("samples"), std::string_view("outputs"), std::string_view("inputs")};

std::vector<std::string> names_of(const std::vector<SplitChoice>& choices) {
  std::vector<std::string> names;
  for (const SplitChoice& choice : choices) names.emplace_back(choice.row->name);
  return names;
}

/// Two convolutions of few weights, two linear layers of many.
std::vector<SplitCandidate> network() {
  return {{"conv1", 300, 800, 6000, rows(kLayer), true},
          {"conv2", 18'000, 6000, 3000, rows(kLayer), true},
          {"fc1", 3'200'000, 3000, 1024, rows(kLayer), true},
          {"fc2", 10'000, 1024, 10, rows(kLayer)}};
}

TEST(SplitChoice, HasConvolutionsBySamplesAndLinearLayersByFeatures) {
  const auto choices = choose_splits(network(), {.members = 2, .samples = 64});
  EXPECT_THAT(names_of(choices), ElementsAre("samples", "samples", "outputs", "inputs"));
}

TEST(SplitChoice, CountsWhatAMemberSends) {
  const std::vector<SplitCandidate> one = {{"fc", 1000, 10, 100, rows({"samples", "outputs"})}};
  SplitChoiceInput input{.members = 4, .replicas = 2, .samples = 8, .element_bytes = 4};
  auto choices = choose_splits(one, input);
  // Gradients summed over 4 members and 2 replicas; logits gathered.
  const double logits = 100 * 8 * 4 * 0.75;
  EXPECT_DOUBLE_EQ(choices[0].bytes[0], 4000 * 2 * 7.0 / 8 + logits);
  EXPECT_DOUBLE_EQ(choices[0].bytes[1], 1000 * 2 * 0.5 + logits);
  EXPECT_EQ(choices[0].row->name, "outputs");
  input.in_strips = false;
  choices = choose_splits(one, input);
  EXPECT_DOUBLE_EQ(choices[0].bytes[0], 4000 * 2 * 0.75 + 4000 * 2 * 0.5 + logits);
  EXPECT_DOUBLE_EQ(choices[0].bytes[1], 1000 * 2 * 0.5 + logits);
}

TEST(SplitChoice, GoesOverToSamplesAsBatchesGrow) {
  for (double samples : {16.0, 256.0, 1e6}) {
    const auto names = names_of(choose_splits(network(), {.members = 4, .samples = samples}));
    EXPECT_EQ(names[2] == "samples", samples == 1e6) << samples;
  }
}

TEST(SplitChoice, IsTheBestOfAll) {
  std::mt19937 random(5);
  const auto number = [&](double most) { return std::uniform_real_distribution<double>(1, most)(random); };
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<SplitCandidate> layers;
    double inputs = number(1000);
    for (int i = 0; i < 4; ++i) {
      const double outputs = number(1000);
      layers.push_back({"fc", number(1e5), inputs, outputs, rows(kLayer), random() % 2 == 0});
      if (i == 2) layers.back().rows = rows({"features", "none"});
      inputs = outputs;
    }
    const SplitChoiceInput input{.members = 2 + trial % 3, .replicas = 1 + trial % 2, .samples = number(100)};
    const auto choices = choose_splits(layers, input);
    // With every layer held to one row, what a choice of all rows costs.
    double best = std::numeric_limits<double>::infinity();
    std::vector<std::string> best_names;
    for (std::size_t a = 0; a < 3 * 3 * 2 * 3; ++a) {
      std::vector<SplitCandidate> held = layers;
      std::size_t rest = a;
      for (SplitCandidate& layer : held) {
        layer.rows = {layer.rows[rest % layer.rows.size()]};
        rest /= layers[static_cast<std::size_t>(&layer - held.data())].rows.size();
      }
      try {
        const auto one = choose_splits(held, input);
        if (one.back().bytes[0] >= best) continue;
        best = one.back().bytes[0];
        best_names = names_of(one);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::Usage);
      }
    }
    EXPECT_EQ(names_of(choices), best_names);
    for (std::size_t i = 0; i < layers.size(); ++i)
      EXPECT_NEAR(*std::min_element(choices[i].bytes.begin(), choices[i].bytes.end()), best, 1e-9 * best);
  }
}

TEST(SplitChoice, SaysWhereNothingLeads) {
  const std::vector<SplitCandidate> layers = {{"fc1", 10, 10, 10, rows({"inputs"})}};
  try {
    choose_splits(layers, {.members = 2});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    EXPECT_THAT(error.what(), HasSubstr("no split of fc1"));
  }
}

TEST(SplitChoice, IsATable) {
  const auto layers = network();
  const SplitChoiceInput input{.members = 2, .samples = 64};
  const std::string table = describe(layers, choose_splits(layers, input), input);
  EXPECT_THAT(table, HasSubstr("conv1"));
  EXPECT_THAT(table, HasSubstr("3200000 weights: outputs"));
}

}  // namespace
}  // namespace taxon::parallel
