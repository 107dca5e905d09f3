#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint.h"

namespace taxon::checkpoint {

template <class T>
LogicalTensor tensor(std::string name, DType type, std::vector<std::int64_t> shape,
                     const std::vector<T>& values) {
  LogicalTensor result{std::move(name), type, std::move(shape), {}};
  result.bytes.resize(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(result.bytes.data(), values.data(), result.bytes.size());
  return result;
}

inline void expect_equal(const std::vector<LogicalTensor>& a, const std::vector<LogicalTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].name, b[i].name);
    EXPECT_EQ(a[i].type, b[i].type);
    EXPECT_EQ(a[i].shape, b[i].shape);
    EXPECT_EQ(a[i].bytes, b[i].bytes) << a[i].name;
  }
}

/// What `action` throws must be an Error{Checkpoint}; returns its message, which is one line.
template <class Action>
std::string checkpoint_error(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Checkpoint) << error.what();
    std::string text = error.what();
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    return text;
  }
  ADD_FAILURE() << "no error";
  return {};
}

inline Checkpoint sample_checkpoint(std::int64_t steps = 1234) {
  Checkpoint checkpoint;
  checkpoint.plan_yaml = "name: run\nseed: 7\n";
  checkpoint.taxon_version = "0.1.0";
  checkpoint.seed = 0xfedcba9876543210U;
  checkpoint.world_size = 2;
  checkpoint.steps = steps;
  checkpoint.samples = steps * 64;
  checkpoint.weights = {tensor<float>("fc.weight", DType::Float32, {2, 2}, {1, 2, 3, 4}),
                        tensor<float>("fc.bias", DType::Float32, {2}, {5, static_cast<float>(steps)})};
  checkpoint.optimiser = {tensor<float>("momentum/fc.weight", DType::Float32, {2, 2}, {0, 1, 0, 1}),
                          tensor<float>("momentum/fc.bias", DType::Float32, {2}, {9, 9})};
  checkpoint.per_rank = {{tensor<std::uint8_t>("state", DType::UInt8, {3}, {1, 2, 3})},
                         {tensor<std::uint8_t>("state", DType::UInt8, {3}, {4, 5, 6})}};
  return checkpoint;
}

inline void expect_equal(const Checkpoint& a, const Checkpoint& b) {
  EXPECT_EQ(a.plan_yaml, b.plan_yaml);
  EXPECT_EQ(a.taxon_version, b.taxon_version);
  EXPECT_EQ(a.seed, b.seed);
  EXPECT_EQ(a.world_size, b.world_size);
  EXPECT_EQ(a.steps, b.steps);
  EXPECT_EQ(a.samples, b.samples);
  expect_equal(a.weights, b.weights);
  expect_equal(a.optimiser, b.optimiser);
  ASSERT_EQ(a.per_rank.size(), b.per_rank.size());
  for (std::size_t r = 0; r < a.per_rank.size(); ++r) expect_equal(a.per_rank[r], b.per_rank[r]);
}

}  // namespace taxon::checkpoint
