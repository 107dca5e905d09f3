#include "data/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "base/rng.h"
#include "data/opened.h"

namespace taxon::data {
namespace {

using test::failure_of;
using test::put;
using testing::ElementsAre;
using testing::HasSubstr;

/// As numpy.save() writes it.
template <class T>
std::vector<std::byte> npy(const std::string& descr, const std::string& shape, const std::vector<T>& values,
                           const std::string& fortran = "False") {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string file = "\x93NUMPY";
  file += {'\x01', '\0', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  file += header;
  std::vector<std::byte> bytes(file.size() + values.size() * sizeof(T));
  std::memcpy(bytes.data(), file.data(), file.size());
  std::memcpy(bytes.data() + file.size(), values.data(), values.size() * sizeof(T));
  return bytes;
}

class Npy : public testing::Test {
 protected:
  Npy() {
    put(storage_, "/d/train/samples.npy", npy<float>("<f4", "(3, 2)", {1, 2, 3, 4, 5, 6}));
    put(storage_, "/d/train/labels.npy", npy<std::int64_t>("<i8", "(3,)", {0, 2, 1}));
    put(storage_, "/d/test/samples.npy", npy<float>("<f4", "(1, 2)", {7, 8}));
    put(storage_, "/d/test/labels.npy", npy<std::uint8_t>("|u1", "(1, 1)", {2}));
  }
  Datasets open() { return open_datasets(plan_, storage_); }
  MemoryStorage storage_;
  plan::DataPlan plan_ = test::data_plan("npy");
};

TEST_F(Npy, NumbersAreTakenAsTheyAre) {
  const Datasets sets = open();
  EXPECT_EQ(sets.train->shape(), (SampleShape{.input = {2}, .classes = 3}));
  EXPECT_THAT(test::all_of(*sets.train).first, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(test::all_of(*sets.train).second, ElementsAre(0, 2, 1));
  EXPECT_THAT(test::all_of(*sets.test).first, ElementsAre(7, 8));
  EXPECT_THAT(test::all_of(*sets.test).second, ElementsAre(2));
}

TEST_F(Npy, BytesArePixels) {
  put(storage_, "/d/train/samples.npy", npy<std::uint8_t>("|u1", "(3, 1, 2)", {0, 255, 51, 0, 0, 0}));
  plan_.test_path = "/d/train";
  plan_.mean = 0.5;
  const Datasets sets = open();
  EXPECT_THAT(sets.train->shape().input, ElementsAre(1, 1, 2));
  EXPECT_NEAR(test::all_of(*sets.train).first[1], 0.5, 1e-6);
  EXPECT_NEAR(test::all_of(*sets.train).first[2], 0.2 - 0.5, 1e-6);
}

TEST_F(Npy, ChannelsComeFirst) {
  for (const bool bytes : {true, false}) {
    if (bytes)
      put(storage_, "/d/train/samples.npy",
          npy<std::uint8_t>("|u1", "(1, 1, 2, 3)", {0, 51, 102, 153, 204, 255}));
    else
      put(storage_, "/d/train/samples.npy", npy<double>("<f8", "(1, 1, 2, 3)", {0, .2, .4, .6, .8, 1}));
    put(storage_, "/d/train/labels.npy", npy<std::int64_t>("<i8", "(1,)", {1}));
    plan_.test_path = "/d/train";
    plan_.options = {{"channels_last", true}};
    const Datasets sets = open();
    EXPECT_THAT(sets.train->shape().input, ElementsAre(3, 1, 2));
    EXPECT_THAT(test::all_of(*sets.train).first,
                testing::Pointwise(testing::FloatEq(), {0.0F, 0.6F, 0.2F, 0.8F, 0.4F, 1.0F}));
  }
}

TEST_F(Npy, NamesOfFilesMaySayTheSet) {
  for (const char* set : {"train", "test"})
    for (const char* file : {"samples", "labels"}) {
      const std::string from = std::string("/d/") + set + "/" + file + ".npy";
      put(storage_, std::string("/all/") + file[0] + "_" + set + ".npy", storage_.read(from));
    }
  plan_.path = "/all";
  plan_.options = {{"samples", "s_{set}.npy"}, {"labels", "l_{set}.npy"}};
  EXPECT_EQ(open().train->size(), 3);
  EXPECT_EQ(open().test->size(), 1);
  plan_.options = {{"inputs", "[s_{set}.npy]"}, {"labels", "l_{set}.npy"}};
  EXPECT_EQ(open().test->size(), 1);
}

TEST_F(Npy, FloatingPointLabelsAreTargets) {
  for (const char* extents : {"(3,)", "(3, 1)"}) {
    put(storage_, "/d/train/labels.npy", npy<double>("<f8", extents, {0.5, -2, 1e-3}));
    put(storage_, "/d/test/labels.npy", npy<float>("<f4", "(1,)", {7}));
    const Datasets sets = open();
    EXPECT_EQ(sets.train->shape(),
              (SampleShape{.input = {2}, .classes = 1, .target = {1}, .target_type = DType::Float32}));
    const Samples samples = test::samples_of(*sets.train);
    EXPECT_THAT(test::all_of(samples.parts[0]), ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT(test::all_of(samples.labels), ElementsAre(0.5, -2, 1e-3F));
  }
  put(storage_, "/d/train/labels.npy", npy<float>("<f4", "(3, 1, 2)", {0, 1, 2, 3, 4, std::nanf("")}));
  plan_.test_path = "/d/train";
  EXPECT_THAT(failure_of(plan_, storage_), HasSubstr("sample 2: its target 1 is not finite"));
  plan_.faulty = plan::OnFaulty::Skip;
  EXPECT_THAT(open().train->shape().target, ElementsAre(1, 2));
  EXPECT_THAT(test::all_of(test::samples_of(*open().train).labels), ElementsAre(0, 1, 2, 3));
}

TEST_F(Npy, PixelsMayHaveTargets) {
  put(storage_, "/d/train/samples.npy", npy<std::uint8_t>("|u1", "(3, 1, 2)", {0, 255, 51, 0, 0, 0}));
  put(storage_, "/d/train/labels.npy", npy<float>("<f4", "(3,)", {1, 2, 3}));
  plan_.test_path = "/d/train";
  plan_.mean = 0.5;
  plan_.deviation = 0.25;
  const Samples samples = test::samples_of(*open().train);
  EXPECT_THAT(test::all_of(samples.parts[0]),
              testing::Pointwise(testing::DoubleNear(1e-6), std::vector<double>{-2, 2, -1.2, -2, -2, -2}));
}

TEST_F(Npy, InputsAreFiles) {
  put(storage_, "/d/train/words.npy", npy<std::int32_t>("<i4", "(3, 2)", {1, 2, 3, 4, 5, 6}));
  put(storage_, "/d/train/mask.npy", npy<std::uint8_t>("|b1", "(3, 2)", {1, 0, 1, 1, 0, 0}));
  plan_.test_path = "/d/train";
  plan_.options = {{"inputs", "[int64:words.npy, bool:mask.npy, samples.npy]"}};
  const Datasets sets = open();
  EXPECT_EQ(sets.train->shape(), (SampleShape{.input = {2},
                                              .classes = 3,
                                              .input_type = DType::Int64,
                                              .more = {{{2}, DType::UInt8}, {{2}, DType::Float32}}}));
  const Samples samples = test::samples_of(*sets.train);
  EXPECT_THAT(test::all_of(samples.parts[0]), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(test::all_of(samples.parts[1]), ElementsAre(1, 0, 1, 1, 0, 0));
  EXPECT_THAT(test::all_of(samples.parts[2]), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(test::all_of(samples.labels), ElementsAre(0, 2, 1));
  put(storage_, "/d/train/mask.npy", npy<std::int32_t>("<i4", "(3, 2)", {1, 0, 1, 2, 0, 0}));
  EXPECT_THAT(failure_of(plan_, storage_),
              HasSubstr("words.npy: sample 1: its element 1 is 2, and 0 and 1 are wanted"));
  put(storage_, "/d/train/mask.npy", npy<std::int32_t>("<i4", "(2, 2)", {1, 0, 1, 2}));
  EXPECT_THAT(failure_of(plan_, storage_), HasSubstr("has 3 labels, but /d/train/mask.npy has 2 samples"));
}

TEST_F(Npy, FaultySamplesAreNamed) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  put(storage_, "/d/train/samples.npy", npy<float>("<f4", "(3, 2)", {1, 2, 3, nan, 5, 6}));
  EXPECT_THAT(failure_of(plan_, storage_),
              HasSubstr("/d/train/samples.npy: sample 1: its element 1 is not finite"));
  put(storage_, "/d/train/labels.npy", npy<std::int16_t>("<i2", "(3,)", {0, 1, -1}));
  plan_.options = {{"classes", 3}};
  plan_.faulty = plan::OnFaulty::Skip;
  const Datasets sets = open();
  EXPECT_THAT(test::all_of(*sets.train).first, ElementsAre(1, 2));
  EXPECT_THAT(sets.faults->news().value(), HasSubstr("sample 2: its label is -1, and 0 to 2 are wanted"));
}

TEST_F(Npy, WholeNumbersAreThoseThatDoublesTellApart) {
  const double infinity = std::numeric_limits<double>::infinity();
  put(storage_, "/d/train/samples.npy", npy<double>("<f8", "(3, 1)", {infinity, 1e30, 7}));
  put(storage_, "/d/test/samples.npy", npy<std::int64_t>("<i8", "(1, 1)", {8}));
  plan_.options = {{"inputs", "[int64:samples.npy]"}, {"classes", 3}};
  EXPECT_THAT(failure_of(plan_, storage_), HasSubstr("element 0 is inf, and whole numbers"));
  plan_.faulty = plan::OnFaulty::Skip;
  const Datasets sets = open();
  EXPECT_EQ(sets.train->size(), 1);
  EXPECT_EQ(sets.faults->count(), 2);
}

TEST_F(Npy, WhatDoesNotFitIsOneSentence) {
  const auto labels = storage_.read("/d/train/labels.npy"), samples = storage_.read("/d/train/samples.npy");
  auto with = [&](const std::string& path, const std::vector<std::byte>& bytes) {
    put(storage_, "/d/train/labels.npy", labels);
    put(storage_, "/d/train/samples.npy", samples);
    put(storage_, "/d/train/" + path, bytes);
    return failure_of(plan_, storage_);
  };
  EXPECT_THAT(with("labels.npy", npy<std::int64_t>("<i8", "(2,)", {0, 1})),
              HasSubstr("labels.npy: has 2 labels, but /d/train/samples.npy has 3 samples"));
  EXPECT_THAT(with("labels.npy", npy<std::int64_t>("<i8", "(3, 2)", {0, 1, 2, 0, 1, 2})),
              HasSubstr("labels must be one whole number for each sample, or floating-point targets, and it "
                        "holds whole numbers of shape [3, 2]"));
  EXPECT_THAT(with("labels.npy", npy<float>("<f4", "(3, 0)", {})), HasSubstr("labels.npy: holds nothing"));
  EXPECT_THAT(with("samples.npy", npy<float>(">f4", "(3, 2)", {1, 2, 3, 4, 5, 6})),
              HasSubstr("holds elements of type '>f4'; little-endian numbers are wanted: save it again by "
                        "array.astype('<f4')"));
  EXPECT_THAT(with("labels.npy", npy<std::int64_t>(">i8", "(3,)", {0, 2, 1})),
              HasSubstr("array.astype('<i8')"));
  EXPECT_THAT(with("samples.npy", npy<float>("<f4", "(3, 2)", {1, 2, 3, 4, 5, 6}, "True")),
              HasSubstr("column by column"));
  EXPECT_THAT(with("samples.npy", npy<float>("<f4", "(3, 2)", {1, 2, 3, 4, 5})), HasSubstr("is cut short"));
  EXPECT_THAT(with("samples.npy", npy<float>("<f4", "(3, 2)", {1, 2, 3, 4, 5, 6, 7})),
              HasSubstr("is too long"));
  EXPECT_THAT(with("samples.npy", npy<float>("<f4", "()", {1})), HasSubstr("holds one number"));
  EXPECT_THAT(with("samples.npy", npy<float>("|O", "(3, 2)", {1, 2, 3, 4, 5, 6})),
              testing::EndsWith("elements of type '|O'; little-endian numbers are wanted"));
  put(storage_, "/d/test/samples.npy", npy<float>("<f4", "(1, 3)", {7, 8, 9}));
  EXPECT_THAT(with("samples.npy", samples),
              HasSubstr("the test set of /d has inputs float32 [3] and one int64 label of 3 classes, but the "
                        "training set has inputs float32 [2]"));
}

TEST_F(Npy, AnyCutAndAnyEditIsAnErrorOrAnArray) {
  const auto whole = storage_.read("/d/train/samples.npy");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THROW(parse_npy(cut, "x"), Error) << size;
  }
  Rng rng(1, "edits");
  for (int trial = 0; trial < 500; ++trial) {
    auto edited = whole;
    edited[rng.below(whole.size())] = static_cast<std::byte>(rng.below(256));
    try {
      const NpyFile file = parse_npy(edited, "x");
      for (std::size_t i = 0; i < file.count(); ++i) file.number(i);
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace taxon::data
