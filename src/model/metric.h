#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace taxon::model {

/// Figures that a task counts while it goes over labels, at most.
constexpr std::size_t kMostCounts = 4;

/// What these are: numbers of labels, or sums of any numbers over labels.
enum class CountsAre : std::uint8_t { Labels, Sums };

/// What is known of labels, each counted once: sums over them, divided by how many they are.
struct LabelMeans {
  double loss = 0;
  std::array<double, kMostCounts> counts{};  // see Task::counts
};

/// A figure that says how good a model is: a row of a task.
struct Metric {
  std::string_view name;  // a key of summary.json and of metrics: "accuracy"
  std::string_view sentence;
  enum class Unit : std::uint8_t { Share, Number } unit = Unit::Number;  // a share is shown in per cent
  enum class Better : std::uint8_t { More, Less } better = Better::Less;
  double (*of)(const LabelMeans&) = nullptr;
};

/// A task's metrics with what they are made from. Means over several steps or ranks are taken of `means`,
/// never of the metrics' values, of which not every one is a mean.
struct Scores {
  std::span<const Metric> metrics;  // of static storage; the first says most
  LabelMeans means;
  double value(const Metric& metric) const { return metric.of(means); }
  /// NaN for a name that no metric has.
  double operator[](std::string_view name) const;
};

}  // namespace taxon::model
