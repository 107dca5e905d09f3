#include "side/tensors.h"

#include <gtest/gtest.h>

#include <vector>

#include "side/steps.h"

namespace taxon::bench {
namespace {

constexpr std::size_t kSizes[] = {1, 2, 16, 31, 33, 1009, 5000, 1 << 16};

std::vector<float> tensor(const TensorContent& content, std::uint64_t number) {
  std::vector<float> data(content.elements(), -1.0F);
  content.write(data.data(), number);
  return data;
}

TEST(TensorContent, WhatIsWrittenIsRightAndItsLargestFound) {
  for (const std::size_t size : kSizes)
    for (const std::uint64_t number : {1U, 2U, 1010U, 1'000'000U}) {
      const TensorContent content(size);
      EXPECT_EQ(content.consume(tensor(content, number).data(), number), content.largest(number)) << size;
    }
}

TEST(TensorContent, TheTensorBeforeIsNotTheNext) {
  for (const std::size_t size : kSizes) {
    const TensorContent content(size);
    const auto before = tensor(content, 7), next = tensor(content, 8);
    EXPECT_FALSE(content.consume(before.data(), 8));
    for (std::size_t i = 0; i < size; ++i) ASSERT_NE(before[i], next[i]) << i << " of " << size;
  }
}

TEST(TensorContent, OneStaleElementAnywhereIsFound) {
  for (const std::size_t size : kSizes) {
    const TensorContent content(size);
    const auto before = tensor(content, 7);
    for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
      auto data = tensor(content, 8);
      data[at] = before[at];
      EXPECT_FALSE(content.consume(data.data(), 8)) << at << " of " << size;
    }
  }
}

TEST(TensorContent, PagesInAnotherOrderAreFound) {
  constexpr std::size_t kPage = 4096 / sizeof(float);
  const TensorContent content(4 * kPage);
  auto data = tensor(content, 3);
  std::swap_ranges(data.begin(), data.begin() + kPage, data.begin() + 2 * kPage);
  EXPECT_FALSE(content.consume(data.data(), 3));
}

std::vector<float> sum_of_steps(std::size_t size, std::uint64_t last, std::uint64_t left_out = 0) {
  std::vector<float> sum(size), gradient(size);
  for (std::uint64_t number = 1; number <= last; ++number) {
    write_pattern(gradient.data(), size, number);
    if (number != left_out) add_to(sum.data(), gradient.data(), size);
  }
  return sum;
}

TEST(PulledCheck, SumsOfManyStepsAreExactAndAStepLeftOutIsFound) {
  constexpr std::uint64_t kSteps = 3000;
  const std::vector<std::size_t> sizes(std::begin(kSizes), std::end(kSizes));
  for (std::size_t v = 0; v < 6; ++v) {
    PulledCheck check;
    check.begin(sizes);
    for (std::uint64_t number = 1; number <= kSteps; ++number) check.expect(number);
    check.use(v, sum_of_steps(sizes[v], kSteps).data());
    EXPECT_TRUE(check.right());
    check.use(v, sum_of_steps(sizes[v], kSteps, 1234).data());
    EXPECT_EQ(check.right(), false) << sizes[v];
  }
}

TEST(Consumer, StaysWrongUntilItBeginsAgain) {
  const TensorContent content(100);
  Consumer consumer;
  consumer.prepare(content);
  consumer.begin();
  EXPECT_EQ(consumer.take(tensor(content, 1).data(), 2), 0.0F);
  consumer.take(tensor(content, 3).data(), 3);
  EXPECT_FALSE(consumer.right());
  consumer.begin();
  EXPECT_EQ(consumer.take(tensor(content, 4).data(), 4), content.largest(4));
  EXPECT_TRUE(consumer.right());
}

}  // namespace
}  // namespace taxon::bench
