#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "data/blobs.h"
#include "data/memory_storage.h"
#include "model/perceptron.h"
#include "support/distance.h"
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

/// A run that stops after so many steps; and one that goes on from what is there.
inline TrainingJob stopping(TrainingJob job, std::int64_t after, data::Storage* storage) {
  job.storage = storage;
  job.out = "run";
  job.stop_after = after;
  return job;
}
inline TrainingJob going_on(TrainingJob job, data::Storage* storage) {
  job.storage = storage;
  job.out = "run";
  job.start = train::TrainOptions::Start::Resume;
  return job;
}

/// Seeded samples and jobs of a tiny perceptron.
class Train : public ::testing::Test {
 protected:
  Train() {
    datasets_.train = std::make_unique<data::Blobs>(samples(100, 1));
    datasets_.test = std::make_unique<data::Blobs>(samples(37, 2));
  }
  TrainingJob job(int ranks, plan::Plan plan) {
    TrainingJob job;
    job.ranks = ranks;
    job.plan = std::move(plan);
    job.datasets = &datasets_;
    job.make_model = [options = model_options(job.plan)](int rank) {
      auto own = options;
      // Other ranks start from other weights: the first broadcast must replace them.
      own.seed = static_cast<std::uint64_t>(rank);
      return std::make_unique<model::Perceptron>(own);
    };
    return job;
  }
  /// Why a run does not begin for want of memory; empty: it was let in.
  static std::string want_of_memory(const TrainingJob& job) {
    try {
      run_training(job);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Resources);
      return error.what();
    }
    return "";
  }
  /// Stops a run after 10 steps and lets it go on to its end.
  void expect_that_an_interrupted_run_goes_on(const plan::Plan& plan) {
    data::MemoryStorage storage;
    TrainingJob first = stopping(job(4, plan), 10, &storage);
    for (const auto& outcome : run_training(first).outcomes)
      EXPECT_EQ(outcome.end, train::Outcome::End::Interrupted);
    TrainingJob rest = going_on(job(4, plan), &storage);
    const auto resumed = run_training(rest);
    EXPECT_EQ(resumed.outcomes[0].end, train::Outcome::End::Complete);
    EXPECT_GT(resumed.recorders[0].info.start_samples, 0);
  }
  model::PerceptronOptions model_options(const plan::Plan& plan) const {
    return {.shape = datasets_.train->shape(), .hidden = kHidden, .frozen = plan.model.frozen, .idle = 3};
  }
  static data::BlobOptions samples(std::int64_t size, std::uint64_t seed) {
    return {.size = size, .inputs = kInputs, .classes = kClasses, .seed = seed};
  }
  data::Datasets datasets_;
};

}  // namespace taxon::test
