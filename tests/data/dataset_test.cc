#include "data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "base/error.h"
#include "data/blobs.h"
#include "data/gzip.h"
#include "data/idx_files.h"
#include "data/split.h"

namespace taxon::data {
namespace {

using test::Bytes;
using test::view;

plan::DataPlan plan_of_d() {
  plan::DataPlan plan;
  plan.path = "/d";
  plan.mean = 0.25;
  plan.deviation = 0.5;
  return plan;
}

TEST(Idx, ReadsGzippedAndPlainHalves) {
  MemoryStorage storage;
  test::put_dataset(storage);
  Datasets sets = open_datasets(plan_of_d(), storage);
  EXPECT_EQ(sets.train->size(), 20);
  EXPECT_EQ(sets.test->size(), 12);
  EXPECT_EQ(sets.train->shape().input, (std::vector<std::int64_t>{1, 4, 6}));
  EXPECT_EQ(sets.train->shape().classes, 10);
  std::vector<std::int64_t> indices = {19, 0, 19};
  std::vector<float> inputs(3 * 24);
  std::vector<std::int64_t> labels(3);
  sets.train->read(indices, inputs, labels);
  EXPECT_EQ(labels, (std::vector<std::int64_t>{9, 0, 9}));
  for (std::size_t k = 0; k < 24; ++k) {
    double first = static_cast<double>((19 * 24 + k) % 256), second = static_cast<double>(k);
    EXPECT_NEAR(inputs[k], (first / 255 - 0.25) / 0.5, 1e-6);
    EXPECT_NEAR(inputs[24 + k], (second / 255 - 0.25) / 0.5, 1e-6);
    EXPECT_EQ(inputs[48 + k], inputs[k]);
  }
}

TEST(Idx, LimitsCutBothHalves) {
  MemoryStorage storage;
  test::put_dataset(storage);
  plan::DataPlan plan = plan_of_d();
  plan.train_limit = 7;
  plan.test_limit = 1000;
  Datasets sets = open_datasets(plan, storage);
  EXPECT_EQ(sets.train->size(), 7);
  EXPECT_EQ(sets.test->size(), 12);
}

/// The sample's inputs and its label.
std::vector<float> sample(const Dataset& set, std::int64_t index) {
  std::vector<float> inputs(24);
  std::vector<std::int64_t> labels(1);
  set.read(std::vector<std::int64_t>{index}, inputs, labels);
  inputs.push_back(static_cast<float>(labels[0]));
  return inputs;
}

TEST(Blobs, ReadNoSampleThatIsNotThere) {
  const Blobs blobs({.size = 2, .inputs = 3});
  for (std::int64_t index : {-1, 2})
    EXPECT_DEATH(read_samples(blobs, std::vector<std::int64_t>{index}), "index -?[12] of 2");
}

TEST(Split, SetsTheLastTrainingSamplesAside) {
  MemoryStorage storage;
  test::put_dataset(storage);
  plan::Plan plan;
  plan.data = plan_of_d();
  const Datasets whole = open_split(plan, storage);
  EXPECT_EQ(whole.train->size(), 20);
  plan.data.train_limit = 18;
  plan.data.validation = 5;
  for (const plan::Split split : {plan::Split::Test, plan::Split::Validation}) {
    plan.evaluation.split = split;
    const Datasets sets = open_split(plan, storage);
    ASSERT_EQ(sets.train->size(), 13);
    EXPECT_EQ(sets.train->shape().input, whole.train->shape().input);
    for (std::int64_t i = 0; i < 13; ++i) EXPECT_EQ(sample(*sets.train, i), sample(*whole.train, i));
    const bool aside = plan.evaluation.split == plan::Split::Validation;
    ASSERT_EQ(sets.test->size(), aside ? 5 : whole.test->size());
    for (std::int64_t i = 0; i < sets.test->size(); ++i)
      EXPECT_EQ(sample(*sets.test, i), aside ? sample(*whole.train, 13 + i) : sample(*whole.test, i));
  }
}

TEST(Split, NeedsNoTestSetWhereValidationIsWanted) {
  MemoryStorage storage;
  test::put_dataset(storage);
  for (const char* file : {"images-idx3-ubyte", "labels-idx1-ubyte"})
    storage.remove(std::string("/d/t10k-") + file);
  plan::Plan plan;
  plan.data = plan_of_d();
  plan.data.validation = 5;
  EXPECT_THROW(open_split(plan, storage), Error);
  plan.evaluation.split = plan::Split::Validation;
  EXPECT_EQ(open_split(plan, storage).test->size(), 5);
}

TEST(Split, AShareOrASetOfItsOwn) {
  MemoryStorage storage;
  test::put_dataset(storage);
  plan::Plan plan;
  plan.data = plan_of_d();
  plan.data.validation_share = 0.3;
  plan.evaluation.split = plan::Split::Validation;
  EXPECT_EQ(open_split(plan, storage).train->size(), 14);
  EXPECT_EQ(open_split(plan, storage).test->size(), 6);
  plan.data.validation_share = 0;
  plan.data.validation_path = "/d";
  EXPECT_EQ(open_split(plan, storage).train->size(), 20);
  EXPECT_EQ(open_split(plan, storage).test->size(), 20);
}

/// The first pixels, which tell samples apart.
std::vector<float> first_pixels(const Dataset& set) {
  std::vector<float> pixels;
  for (std::int64_t i = 0; i < set.size(); ++i) pixels.push_back(sample(set, i)[0]);
  return pixels;
}

TEST(Split, DrawnByItsSeedAlone) {
  MemoryStorage storage;
  test::put_dataset(storage);
  plan::Plan plan;
  plan.data = plan_of_d();
  plan.data.validation = 6;
  plan.data.split_seed = 3;
  plan.evaluation.split = plan::Split::Validation;
  const Datasets sets = open_split(plan, storage);
  std::vector<float> aside = first_pixels(*sets.test), rest = first_pixels(*sets.train);
  plan.seed = 99;
  EXPECT_EQ(first_pixels(*open_split(plan, storage).test), aside);
  plan.data.split_seed = 4;
  EXPECT_NE(first_pixels(*open_split(plan, storage).test), aside);
  plan = {.data = plan_of_d()};
  std::vector<float> all = first_pixels(*open_split(plan, storage).train), both = rest;
  both.insert(both.end(), aside.begin(), aside.end());
  EXPECT_NE(both, all);
  EXPECT_THAT(both, testing::UnorderedElementsAreArray(all));
}

TEST(Split, LeavesSomethingToTrainOn) {
  MemoryStorage storage;
  test::put_dataset(storage);
  plan::Plan plan;
  plan.data = plan_of_d();
  plan.data.validation = 20;
  try {
    open_split(plan, storage);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    EXPECT_STREQ(error.what(),
                 "data.validation: it is 20, and there are 20 training samples; leave some to train on");
  }
}

TEST(Split, NamesWhatLeftNothingToTrainOn) {
  MemoryStorage storage;
  plan::Plan plan;
  plan.data.path = "/d";
  plan.data.validation_share = 0.1;
  plan.data.dataset = "faulty";
  plan.data.faulty = plan::OnFaulty::Skip;
  const DatasetRow rows[] = {{.name = "faulty", .open = [](const OpenContext& context) {
                                context.faults->found("/d/x.png", "is no image");
                                return Datasets{.train = std::make_unique<Blobs>(BlobOptions{})};
                              }}};
  try {
    open_split(plan, storage, {.datasets = rows});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Data);
    EXPECT_STREQ(
        error.what(),
        "data: /d has no training samples: 1 faulty sample is left out so far: /d/x.png: is no image");
  }
}

struct Damage {
  const char* name;
  const char* message;
  std::function<void(Storage&)> apply;
};

void replace(Storage& storage, const std::string& name, const Bytes& bytes) {
  storage.write_atomic("/d/" + name, view(bytes));
}

Bytes cut(Bytes bytes, std::size_t size) {
  bytes.resize(size);
  return bytes;
}

Bytes with(Bytes bytes, std::size_t at, int value) {
  bytes.at(at) = static_cast<std::byte>(value);
  return bytes;
}

std::vector<Damage> damages() {
  const std::string labels = "t10k-labels-idx1-ubyte", images = "t10k-images-idx3-ubyte";
  const std::string zipped = "train-images-idx3-ubyte.gz";
  return {
      {"missing",
       "/d/t10k-labels-idx1-ubyte: there is no such file, with or without .gz; Fashion-MNIST comes "
       "with Debian's package dataset-fashion-mnist",
       [=](Storage& s) { s.remove("/d/" + labels); }},
      {"empty", "/d/t10k-labels-idx1-ubyte: is no IDX file: it has 0 byte(s) and no header",
       [=](Storage& s) { replace(s, labels, {}); }},
      {"magic", "/d/t10k-images-idx3-ubyte: is no IDX file: it does not begin with two zero bytes",
       [=](Storage& s) { replace(s, images, with(test::images(12, 4, 6), 0, 1)); }},
      {"type", "/d/t10k-images-idx3-ubyte: holds elements of IDX type 0x0d; unsigned bytes (0x08) are wanted",
       [=](Storage& s) { replace(s, images, with(test::images(12, 4, 6), 2, 0x0d)); }},
      {"swapped", "/d/t10k-images-idx3-ubyte: has 1 dimension(s), and 3 are wanted",
       [=](Storage& s) { replace(s, images, test::labels(12)); }},
      {"header", "/d/t10k-images-idx3-ubyte: is cut short within its header",
       [=](Storage& s) { replace(s, images, cut(test::images(12, 4, 6), 15)); }},
      {"short",
       "/d/t10k-images-idx3-ubyte: is cut short: its header promises 288 bytes of elements, it has 287",
       [=](Storage& s) { replace(s, images, cut(test::images(12, 4, 6), 16 + 287)); }},
      {"long",
       "/d/t10k-images-idx3-ubyte: is too long: its header promises 288 bytes of elements, it has 289",
       [=](Storage& s) { replace(s, images, cut(test::images(12, 4, 6), 16 + 289)); }},
      {"nothing", "/d/t10k-images-idx3-ubyte: holds nothing",
       [=](Storage& s) { replace(s, images, test::images(0, 4, 6)); }},
      {"huge", "/d/t10k-images-idx3-ubyte: claims an impossible size",
       [=](Storage& s) {
         replace(s, images, test::idx({~0U, ~0U, ~0U}, 0, 1));
       }},
      {"label", "/d/t10k-labels-idx1-ubyte: sample 3: its label is 10, and 0 to 9 are wanted",
       [=](Storage& s) { replace(s, labels, with(test::labels(12), 8 + 3, 10)); }},
      {"counts", "/d/t10k-labels-idx1-ubyte: has 11 labels, but /d/t10k-images-idx3-ubyte has 12 images",
       [=](Storage& s) { replace(s, labels, test::labels(11)); }},
      {"sizes",
       "/d/t10k-images-idx3-ubyte: has images of 5x6 pixels, but /d/train-images-idx3-ubyte.gz of 4x6",
       [=](Storage& s) { replace(s, images, test::images(12, 5, 6)); }},
      {"gzip cut", "/d/train-images-idx3-ubyte.gz: is cut short: its gzip data end early",
       [=](Storage& s) {
         Bytes whole = test::gzip(test::images(20, 4, 6));
         replace(s, zipped, cut(whole, whole.size() - 9));
       }},
      {"gzip damaged", "/d/train-images-idx3-ubyte.gz: is damaged: its gzip data do not fit",
       [=](Storage& s) {
         Bytes whole = test::gzip(test::images(20, 4, 6));
         replace(s, zipped, with(whole, whole.size() - 6, 0x5a));
       }},
  };
}

TEST(Idx, FaultyLabelsAreLeftOutWithTheirImages) {
  MemoryStorage storage;
  test::put_dataset(storage);
  const std::vector<float> third = sample(*open_datasets(plan_of_d(), storage).test, 3);
  replace(storage, "t10k-labels-idx1-ubyte", with(with(test::labels(12), 8, 10), 8 + 11, 99));
  plan::DataPlan plan = plan_of_d();
  plan.faulty = plan::OnFaulty::Skip;
  const Datasets sets = open_datasets(plan, storage);
  EXPECT_EQ(sets.test->size(), 10);
  EXPECT_EQ(sample(*sets.test, 2), third);
  EXPECT_EQ(sets.faults->count(), 2);
}

TEST(Idx, WhatIsWrongWithAFileIsSaidInOneLine) {
  for (const Damage& damage : damages()) {
    MemoryStorage storage;
    test::put_dataset(storage);
    damage.apply(storage);
    try {
      open_datasets(plan_of_d(), storage);
      ADD_FAILURE() << damage.name;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Data) << damage.name;
      EXPECT_THAT(error.what(), testing::StartsWith(damage.message)) << damage.name;
      EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("\n"))) << damage.name;
    }
  }
}

TEST(Idx, EveryCutOfEveryFileIsFound) {
  MemoryStorage whole;
  test::put_dataset(whole);
  for (const std::string& name : whole.list("/d"))
    for (std::size_t size = 0, end = whole.read("/d/" + name).size(); size < end; size += 1 + size / 8) {
      MemoryStorage storage;
      test::put_dataset(storage);
      replace(storage, name, cut(whole.read("/d/" + name), size));
      EXPECT_THROW(open_datasets(plan_of_d(), storage), Error) << name << " cut to " << size;
    }
}

TEST(Gzip, SeveralMembersAreOneFile) {
  Bytes a = test::images(2, 3, 4), b = test::labels(5), both = test::gzip(a), tail = test::gzip(b);
  both.insert(both.end(), tail.begin(), tail.end());
  a.insert(a.end(), b.begin(), b.end());
  EXPECT_EQ(gunzip(view(both), "x"), a);
}

TEST(Gzip, UnpacksWhatShrankALot) {
  Bytes zeros(3 << 20);
  EXPECT_EQ(gunzip(view(test::gzip(zeros)), "x"), zeros);
}

TEST(Datasets, UnknownNamesAreAUsersMistake) {
  plan::DataPlan plan;
  plan.dataset = "cifa";
  try {
    open_datasets(plan, MemoryStorage());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    EXPECT_STREQ(
        error.what(),
        "data.dataset: there is no data set called \"cifa\"; known are idx, cifar, images, webdataset, "
        "npy, csv, text, tokens, synthetic, blobs");
  }
}

std::vector<float> all_inputs(const Dataset& set, std::vector<std::int64_t>& labels) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(set.size()));
  std::iota(indices.begin(), indices.end(), 0);
  std::vector<float> inputs(indices.size() * static_cast<std::size_t>(set.shape().elements()));
  labels.resize(indices.size());
  set.read(indices, inputs, labels);
  return inputs;
}

TEST(Synthetic, HasTheSizesThatThePlanSaysOrDefaults) {
  plan::DataPlan plan;
  plan.dataset = "synthetic";
  MemoryStorage storage;
  Datasets sets = open_datasets(plan, storage);
  EXPECT_EQ(sets.train->size(), 6000);
  EXPECT_EQ(sets.test->size(), 1000);
  plan.train_limit = 30;
  plan.test_limit = 20;
  sets = open_datasets(plan, storage);
  EXPECT_EQ(sets.train->size(), 30);
  EXPECT_EQ(sets.test->size(), 20);
  std::vector<std::int64_t> ignored, again_labels;
  auto once = all_inputs(*sets.train, ignored);
  auto again = all_inputs(*open_datasets(plan, storage).train, again_labels);
  EXPECT_EQ(once, again);
  EXPECT_EQ(ignored, again_labels);
}

TEST(Synthetic, ClassesCanBeLearned) {
  plan::DataPlan plan;
  plan.dataset = "synthetic";
  plan.train_limit = 400;
  plan.test_limit = 200;
  Datasets sets = open_datasets(plan, MemoryStorage());
  std::vector<std::int64_t> labels, test_labels;
  auto inputs = all_inputs(*sets.train, labels), test_inputs = all_inputs(*sets.test, test_labels);
  // The nearest mean of the training samples tells the class of the test samples.
  std::vector<std::vector<double>> means(10, std::vector<double>(784));
  std::vector<int> counts(10);
  for (std::size_t i = 0; i < labels.size(); ++i) ++counts[static_cast<std::size_t>(labels[i])];
  for (std::size_t i = 0; i < labels.size(); ++i)
    for (std::size_t k = 0; k < 784; ++k) {
      auto label = static_cast<std::size_t>(labels[i]);
      means[label][k] += inputs[i * 784 + k] / static_cast<double>(counts[label]);
    }
  int correct = 0;
  for (std::size_t i = 0; i < test_labels.size(); ++i) {
    std::vector<double> distances(10);
    for (std::size_t c = 0; c < 10; ++c)
      for (std::size_t k = 0; k < 784; ++k)
        distances[c] += (test_inputs[i * 784 + k] - means[c][k]) * (test_inputs[i * 784 + k] - means[c][k]);
    correct += std::min_element(distances.begin(), distances.end()) - distances.begin() == test_labels[i];
  }
  for (int count : counts) EXPECT_GT(count, 10);
  EXPECT_GE(correct, 190);
  EXPECT_NE(std::vector<float>(inputs.begin(), inputs.begin() + 784),
            std::vector<float>(test_inputs.begin(), test_inputs.begin() + 784));
}

}  // namespace
}  // namespace taxon::data
