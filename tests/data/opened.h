#pragma once

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/dataset.h"
#include "data/memory_storage.h"

namespace taxon::test {

inline plan::DataPlan data_plan(std::string dataset, plan::Options options = {}) {
  return {
      .dataset = std::move(dataset), .path = "/d", .mean = 0, .deviation = 1, .options = std::move(options)};
}

inline void put(data::Storage& storage, const std::string& path, const std::string& text) {
  storage.write_atomic(path, {reinterpret_cast<const std::byte*>(text.data()), text.size()});
}
inline void put(data::Storage& storage, const std::string& path, const std::vector<std::byte>& bytes) {
  storage.write_atomic(path, {bytes.data(), bytes.size()});
}

/// Inputs and labels of all samples.
inline std::pair<std::vector<float>, std::vector<std::int64_t>> all_of(const data::Dataset& set) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(set.size())), labels(indices.size());
  std::iota(indices.begin(), indices.end(), 0);
  std::vector<float> inputs(indices.size() * static_cast<std::size_t>(set.shape().elements()));
  set.read(indices, inputs, labels);
  return {inputs, labels};
}

/// A part of all samples, and their labels, as numbers.
inline std::vector<double> all_of(const data::Values& values) {
  return values.visit([](auto elements) { return std::vector<double>(elements.begin(), elements.end()); });
}
inline data::Samples samples_of(const data::Dataset& set) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(set.size()));
  std::iota(indices.begin(), indices.end(), 0);
  return data::read_samples(set, indices);
}

/// What opening, or reading all of it, ends by; empty: by nothing.
inline std::string failure_of(const plan::DataPlan& plan, const data::Storage& storage) {
  try {
    const data::Datasets sets = data::open_datasets(plan, storage);
    for (const data::Dataset* set : {sets.train.get(), sets.test.get()})
      if (set) samples_of(*set);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace taxon::test
