#pragma once

#include <gtest/gtest.h>

#include "support/toy_model.h"
#include "support/training.h"

namespace taxon::test {

inline constexpr int kInputs = 6, kHidden = 5, kClasses = 3;

inline plan::Plan toy_plan(DType type = DType::Float64) {
  plan::Plan plan;
  plan.batch.global = 12;
  plan.length.steps = 50;
  plan.precision = {type, type};
  plan.learning_rate.base = 0.2;
  plan.exchange.bucket_bytes = 150;  // several buckets
  plan.evaluation.every_epochs = 1;
  return plan;
}

/// Seeded samples and jobs of the toy model.
class Train : public ::testing::Test {
 protected:
  Train() {
    datasets_.train = std::make_unique<ToyData>(100, kInputs, kClasses, 1);
    datasets_.test = std::make_unique<ToyData>(37, kInputs, kClasses, 2);
  }
  TrainingJob job(int ranks, plan::Plan plan) {
    TrainingJob job;
    job.ranks = ranks;
    job.plan = std::move(plan);
    job.datasets = &datasets_;
    job.make_model = [type = job.plan.precision.compute](int rank) {
      // Other ranks start from other weights: the first broadcast must replace them.
      return std::make_unique<ToyModel>(kInputs, kHidden, kClasses, type, static_cast<std::uint64_t>(rank));
    };
    return job;
  }
  data::Datasets datasets_;
};

}  // namespace taxon::test
