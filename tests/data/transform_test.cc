#include "data/transform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "data/number_dataset.h"
#include "data/opened.h"
#include "data/resize.h"
#include "data/split.h"

namespace taxon::data {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::FloatEq;
using testing::HasSubstr;
using testing::Pointwise;

constexpr std::int64_t kSamples = 6, kHeight = 4, kWidth = 5, kPlane = kHeight * kWidth;

/// Images of two channels, every number another one.
std::unique_ptr<Dataset> images() {
  std::vector<float> values;
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < kSamples; ++i) {
    labels.push_back(i % 3);
    for (std::int64_t k = 0; k < 2 * kPlane; ++k) values.push_back(static_cast<float>(100 * i + k));
  }
  return std::make_unique<NumberDataset>(SampleShape{.input = {2, kHeight, kWidth}, .classes = 3},
                                         Samples({values}, labels));
}

std::unique_ptr<Dataset> with(std::vector<plan::TransformPlan> transforms, Chance chance = Chance::Training,
                              std::uint64_t seed = 1) {
  return transformed(images(), {.transforms = std::move(transforms)}, chance, seed);
}

std::vector<float> in_epoch(const Dataset& set, std::int64_t epoch, std::vector<std::int64_t> indices) {
  std::vector<float> inputs(indices.size() * static_cast<std::size_t>(set.shape().elements()));
  std::vector<std::int64_t> labels(indices.size());
  set.read_parts(epoch, indices, {{std::span(inputs)}, std::span(labels)});
  for (std::size_t i = 0; i < indices.size(); ++i) EXPECT_EQ(labels[i], indices[i] % 3);
  return inputs;
}

std::vector<plan::TransformPlan> all_transforms() {
  return {
      {"random_crop", {{"padding", 2}}}, {"horizontal_flip"}, {"resized_crop"}, {"cutout", {{"size", 2}}}};
}

TEST(Transforms, ADrawDependsOnSeedEpochAndSampleAlone) {
  const auto set = with(all_transforms());
  const auto whole = in_epoch(*set, 3, {0, 1, 2, 3, 4, 5});
  const auto elements = static_cast<std::size_t>(2 * kPlane);
  for (std::int64_t i = 0; i < kSamples; ++i) {  // whoever reads it, with whatever beside it
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(i) * elements);
    EXPECT_EQ(in_epoch(*set, 3, {i}),
              std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(elements)));
  }
  EXPECT_EQ(in_epoch(*with(all_transforms()), 3, {0, 1, 2, 3, 4, 5}), whole);
  EXPECT_NE(in_epoch(*set, 4, {0, 1, 2, 3, 4, 5}), whole);
  EXPECT_NE(in_epoch(*with(all_transforms(), Chance::Training, 2), 3, {0, 1, 2, 3, 4, 5}), whole);
}

TEST(Transforms, TestsLeaveNothingToChance) {
  const auto set = with({{"random_crop"}, {"horizontal_flip"}, {"cutout"}}, Chance::None);
  const auto plain = test::all_of(*images());
  EXPECT_EQ(in_epoch(*set, 1, {0, 1, 2, 3, 4, 5}), plain.first);
  EXPECT_EQ(test::all_of(*set), plain);
  EXPECT_EQ(test::all_of(*with({{"horizontal_flip"}})), plain);  // nor does what is read beside training
}

TEST(Transforms, FlipsHalfOfThem) {
  int flipped = 0;
  const auto set = with({{"horizontal_flip"}});
  for (std::int64_t epoch = 0; epoch < 200; ++epoch) {
    const auto image = in_epoch(*set, epoch, {2});
    if (image[0] == 200) {
      EXPECT_EQ(image[1], 201);
    } else {
      ++flipped;
      for (std::size_t x = 0; x < kWidth; ++x)
        EXPECT_EQ(image[kWidth + x], 200 + 5 + 4 - static_cast<float>(x));
    }
  }
  EXPECT_GT(flipped, 70);
  EXPECT_LT(flipped, 130);
  EXPECT_EQ(in_epoch(*with({{"horizontal_flip", {{"probability", 1}}}}), 0, {0})[0], 4);
}

TEST(Transforms, CropsComeFromEveryPlaceOfThePaddedImage) {
  const auto set = with({{"random_crop", {{"padding", 1}, {"fill", -1}}}});
  std::set<std::pair<int, int>> corners;
  for (std::int64_t epoch = 0; epoch < 300; ++epoch) {
    const auto image = in_epoch(*set, epoch, {0});
    const auto centre = static_cast<int>(image[kWidth + 2]);  // always of the image: y * 5 + x
    corners.insert({centre / 5, centre % 5});
  }
  EXPECT_EQ(corners.size(), 9u);
  const auto smaller = with({{"random_crop", {{"padding", 0}, {"size", 2}}}}, Chance::None);
  EXPECT_THAT(smaller->shape().input, ElementsAre(2, 2, 2));
  EXPECT_THAT(in_epoch(*smaller, 0, {0}), ElementsAre(6, 7, 11, 12, 26, 27, 31, 32));
}

TEST(Transforms, CutoutBlanksASquareInAllChannels) {
  const auto set = with({{"cutout", {{"size", 2}, {"fill", -7}}}});
  for (std::int64_t epoch = 0; epoch < 50; ++epoch) {
    const auto image = in_epoch(*set, epoch, {1});
    int blank = 0;
    for (std::size_t k = 0; k < kPlane; ++k) {
      EXPECT_EQ(image[k] == -7, image[kPlane + k] == -7);
      blank += image[k] == -7;
    }
    EXPECT_THAT(blank, testing::AnyOf(1, 2, 4));
  }
}

TEST(Transforms, NormaliseByChannel) {
  const auto set = with({{"normalise", {{"mean", "[100, 120]"}, {"deviation", "[2, 4]"}}}}, Chance::None);
  const auto image = in_epoch(*set, 0, {1});
  EXPECT_FLOAT_EQ(image[3], 1.5);
  EXPECT_FLOAT_EQ(image[kPlane + 4], 1);
  EXPECT_FLOAT_EQ(in_epoch(*with({{"normalise", {{"mean", "[1]"}}}}), 0, {0})[2], 1);
}

TEST(Transforms, ResizedCropsKeepFlatImagesFlat) {
  std::vector<float> values(3 * 12 * 16, 0.25F);
  auto flat = std::make_unique<NumberDataset>(SampleShape{.input = {3, 12, 16}, .classes = 1},
                                              Samples({values}, std::vector<std::int64_t>{0}));
  const auto set =
      transformed(std::move(flat), {.transforms = {{"resized_crop", {{"size", 8}}}}}, Chance::Training, 1);
  EXPECT_THAT(set->shape().input, ElementsAre(3, 8, 8));
  for (std::int64_t epoch = 0; epoch < 40; ++epoch)
    EXPECT_THAT(in_epoch(*set, epoch, {0}), Each(FloatEq(0.25F)));
}

TEST(Resize, HalvesByMeansAndKeepsWhatFits) {
  const std::vector<float> row = {0, 0, 4, 4, 8, 8, 8, 8};
  std::vector<float> half(4), same(8), part(2);
  resize(row, {1, 1, 8}, {0, 0, 1, 8}, half, {1, 1, 4});
  // Triangles that are four pixels wide: 1, 3, 3, 1 eighths, less at the edges.
  EXPECT_THAT(half, Pointwise(FloatEq(), {4.0F / 7, 4.0F, 7.5F, 8.0F}));
  resize(row, {1, 1, 8}, {0, 0, 1, 8}, same, {1, 1, 8});
  EXPECT_EQ(same, row);
  resize(row, {1, 1, 8}, {0, 2, 1, 2}, part, {1, 1, 2});
  EXPECT_THAT(part, ElementsAre(4, 4));
}

std::string refusal(std::vector<plan::TransformPlan> transforms) {
  try {
    with(std::move(transforms));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    return error.what();
  }
  return {};
}

TEST(Transforms, WhatMakesNoSenseIsRefused) {
  EXPECT_THAT(refusal({{"random_crop", {{"size", 40}}}}),
              HasSubstr("random_crop cuts 40 x 40 pixels out of images of 4 x 5"));
  EXPECT_THAT(refusal({{"normalise", {{"mean", "[1, 2, 3]"}}}}),
              HasSubstr("normalise has 3 numbers as mean, and samples have 2 channels"));
  EXPECT_THAT(refusal({{"rotate"}}), HasSubstr("no transform is called \"rotate\""));
  plan::DataPlan plan{.transforms = {{"cutout"}}};
  EXPECT_THROW(transformed(std::make_unique<NumberDataset>(
                               SampleShape{.input = {4}, .classes = 1},
                               Samples({std::vector<float>(4)}, std::vector<std::int64_t>{0})),
                           plan, Chance::Training, 1),
               Error);
}

/// Twice as bright.
class Doubled final : public Transform {
 public:
  explicit Doubled(std::vector<std::int64_t> extents) : extents_(std::move(extents)) {}
  std::vector<std::int64_t> output() const override { return extents_; }
  void apply(std::span<const float> from, std::span<float> to, Rng*) const override {
    for (std::size_t k = 0; k < from.size(); ++k) to[k] = 2 * from[k];
  }

 private:
  std::vector<std::int64_t> extents_;
};

struct OwnOptions {
  int samples = 3;
};
template <plan::Like<OwnOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(plan::Field{.key = "samples", .sentence = "How many.", .min = 1}, o.samples);
}

Datasets open_own(const OpenContext& context) {
  const auto size = static_cast<std::size_t>(context.plan.options.read<OwnOptions>().samples);
  auto make = [&] {
    return std::make_unique<NumberDataset>(
        SampleShape{.input = {1}, .classes = 1},
        Samples({std::vector<float>(size, 1)}, std::vector<std::int64_t>(size)));
  };
  return {make(), make()};
}

TEST(OwnRows, OfAProgramAreFoundAndRead) {
  constexpr DatasetRow kSets[] = {
      {.name = "own", .sentence = "Ones.", .open = open_own, .options = plan::option_keys<OwnOptions>}};
  constexpr TransformRow kTransforms[] = {
      {.name = "doubled",
       .sentence = "Twice.",
       .make = [](const plan::Options&, const std::vector<std::int64_t>& input)
           -> std::unique_ptr<Transform> { return std::make_unique<Doubled>(input); }}};
  plan::Catalogue known;
  known.datasets = known_datasets(kSets);
  known.transforms = known_transforms(kTransforms);
  const plan::Plan plan = plan::parse_plan(
      "data: {dataset: own, samples: 5, transforms: [doubled, {name: normalise, mean: [1]}]}", "r", {},
      &known);
  MemoryStorage storage;
  const Datasets sets = open_split(plan, storage, {kSets, kTransforms});
  EXPECT_EQ(sets.train->size(), 5);
  EXPECT_THAT(test::all_of(*sets.train).first, Each(1));
  EXPECT_THROW(plan::parse_plan("data: {dataset: own, samples: 0}", "r", {}, &known), Error);
  EXPECT_THROW(
      plan::parse_plan("data: {dataset: own, transforms: [{name: doubled, by: 3}]}", "r", {}, &known), Error);
}

TEST(OwnRows, WithoutTheirFunctionsAreRefused) {
  constexpr DatasetRow kSets[] = {{.name = "own"}};
  constexpr TransformRow kTransforms[] = {{.name = "doubled", .make = nullptr}};
  plan::Plan plan;
  plan.data.dataset = "own";
  MemoryStorage storage;
  try {
    open_split(plan, storage, {kSets, kTransforms});
    ADD_FAILURE() << "rows without functions were taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    EXPECT_THAT(error.what(), testing::HasSubstr("datasets: row \"own\" lacks its member open"));
    EXPECT_THAT(error.what(), testing::HasSubstr("transforms: row \"doubled\" lacks its member make"));
  }
}

}  // namespace
}  // namespace taxon::data
