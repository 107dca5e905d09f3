#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/opened.h"

namespace taxon::data {
namespace {

using test::failure_of;
using test::put;
using testing::ElementsAre;
using testing::HasSubstr;

/// Records with these labels before their pixels, which are all the last label times 10.
std::vector<std::byte> records(const std::vector<std::vector<int>>& labels) {
  std::vector<std::byte> bytes;
  for (const auto& one : labels) {
    for (int label : one) bytes.push_back(static_cast<std::byte>(label));
    bytes.insert(bytes.end(), 3072, static_cast<std::byte>(one.back() * 10));
  }
  return bytes;
}

class Cifar : public testing::Test {
 protected:
  void put_10() {
    for (int batch = 1; batch <= 5; ++batch)
      put(storage_, fmt::format("/d/data_batch_{}.bin", batch), records({{batch}, {9}}));
    put(storage_, "/d/test_batch.bin", records({{0}}));
  }
  MemoryStorage storage_;
  plan::DataPlan plan_ = test::data_plan("cifar");
};

TEST_F(Cifar, TenClassesInFiveFiles) {
  put_10();
  const Datasets sets = open_datasets(plan_, storage_);
  EXPECT_EQ(sets.train->shape(), (SampleShape{.input = {3, 32, 32}, .classes = 10}));
  const auto [inputs, labels] = test::all_of(*sets.train);
  EXPECT_THAT(labels, ElementsAre(1, 9, 2, 9, 3, 9, 4, 9, 5, 9));
  EXPECT_FLOAT_EQ(inputs[2 * 3072 + 3071] * 255, 20);
  EXPECT_EQ(sets.test->size(), 1);
}

TEST_F(Cifar, AHundredClassesOrTheirGroups) {
  put(storage_, "/d/train.bin", records({{3, 42}, {19, 99}}));
  put(storage_, "/d/test.bin", records({{1, 2}}));
  EXPECT_THAT(test::all_of(*open_datasets(plan_, storage_).train).second, ElementsAre(42, 99));
  plan_.options = {{"labels", "coarse"}};
  const Datasets sets = open_datasets(plan_, storage_);
  EXPECT_EQ(sets.train->shape().classes, 20);
  EXPECT_THAT(test::all_of(*sets.train).second, ElementsAre(3, 19));
}

TEST_F(Cifar, WhatIsWrongIsNamed) {
  EXPECT_THAT(failure_of(plan_, storage_), HasSubstr("/d: there is neither data_batch_1.bin"));
  put_10();
  put(storage_, "/d/data_batch_2.bin", records({{1}, {10}}));
  EXPECT_THAT(failure_of(plan_, storage_),
              HasSubstr("/d/data_batch_2.bin: record 1: its label is 10, and 0 to 9 are wanted"));
  auto bytes = records({{1}, {2}});
  bytes.pop_back();
  put(storage_, "/d/data_batch_3.bin", bytes);
  plan_.faulty = plan::OnFaulty::Skip;
  const Datasets sets = open_datasets(plan_, storage_);
  EXPECT_EQ(sets.train->size(), 8);
  EXPECT_THAT(sets.faults->news().value(), HasSubstr("/d/data_batch_3.bin: record 1: is cut short"));
}

}  // namespace
}  // namespace taxon::data
