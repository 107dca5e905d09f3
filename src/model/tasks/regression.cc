#include "model/task.h"

namespace taxon::model {
namespace {

/// What SquaredError counts, in its order. A loss that the model returns may be another than the squares.
enum Count { Squares, AbsoluteErrors, Targets, SquaresOfTargets };

constexpr Metric kMetrics[] = {
    {"r2", "share of the targets' variance, around one mean of all, that the model explains",
     Metric::Unit::Number, Metric::Better::More,
     [](const LabelMeans& means) {
       const double mean = means.counts[Targets];
       return 1 - means.counts[Squares] / (means.counts[SquaresOfTargets] - mean * mean);
     }},
    {"mse", "mean squared error", Metric::Unit::Number, Metric::Better::Less,
     [](const LabelMeans& means) { return means.counts[Squares]; }},
    {"mae", "mean absolute error", Metric::Unit::Number, Metric::Better::Less,
     [](const LabelMeans& means) { return means.counts[AbsoluteErrors]; }},
};

}  // namespace

TaskRow regression() {
  return {.name = "regression",
          .sentence = "Real numbers for each sample: the mean squared error, R2, the mean absolute error.",
          .fits = [](const data::SampleShape& shape) { return shape.has_real_targets(); },
          .make =
              [](const plan::Options&, const data::SampleShape&) {
                return Task{.name = "regression",
                            .loss = Task::Loss::SquaredError,
                            .counts = SquaresOfTargets + 1,
                            .metrics = kMetrics};
              }};
}

}  // namespace taxon::model
