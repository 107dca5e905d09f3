#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "data/sample_shape.h"
#include "model/metric.h"
#include "plan/catalogue.h"
#include "plan/plan.h"

namespace taxon::model {

/// What a model is trained and judged by: a loss of logits and labels, what is counted beside it, and the
/// metrics that are made of both.
struct Task {
  std::string_view name = "none";
  /// Of a label: the cross-entropy of its logits, or the square of its difference from what the model gives.
  enum class Loss : std::uint8_t { CrossEntropy, SquaredError } loss = Loss::CrossEntropy;
  /// So many. CrossEntropy's are of labels that `among` says, SquaredError's sums of squares and of absolute
  /// values of errors, of targets and of their squares.
  std::size_t counts = 0;
  CountsAre counts_are() const { return loss == Loss::CrossEntropy ? CountsAre::Labels : CountsAre::Sums; }
  /// Share of each label that is spread over all classes in training (Szegedy et al., CVPR 2016); tests have
  /// none.
  double label_smoothing = 0;
  /// Count i is of labels among so many likeliest classes; 0: there is no such count.
  std::array<int, kMostCounts> among{};
  std::span<const Metric> metrics;  // of static storage
  int written_tokens = 0;           // that the trained model writes at the end of a run, for a person to read
};

struct TaskRow {
  std::string_view name;
  std::string_view sentence;
  /// Whether samples of the shape have what it learns.
  bool (*fits)(const data::SampleShape& shape) = nullptr;
  /// Throws Error{Usage} where its options make no sense with the shape.
  Task (*make)(const plan::Options& options, const data::SampleShape& shape) = nullptr;
  std::vector<plan::OptionKey> (*options)() = nullptr;
};
/// One file for each in model/tasks.
std::span<const TaskRow> task_table();
/// The plan's task for samples of that shape. Throws Error{Usage} for one that does not fit them.
Task make_task(const plan::TaskPlan& plan, const data::SampleShape& shape);
/// For plan::check_plan().
std::vector<plan::Catalogue::Task> known_tasks();

}  // namespace taxon::model
