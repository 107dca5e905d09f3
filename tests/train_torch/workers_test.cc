// The bundled models trained by one and by several workers: the same mathematics, whatever the number of
// workers.

#include <gtest/gtest.h>

#include <cmath>

#include "data/memory_storage.h"
#include "support/training.h"

namespace taxon::test {
namespace {

class Workers : public ::testing::TestWithParam<const char*> {
 protected:
  static plan::Plan make_plan(DType type) {
    plan::Plan plan;
    plan.model.name = GetParam();
    plan.data.dataset = "synthetic";
    plan.data.train_limit = 125;  // 12 batches of 10 and one of 5 per epoch: some ranks get nothing there
    plan.data.test_limit = 20;
    plan.batch.global = 10;
    plan.length.steps = 50;
    plan.precision = {type, type};
    plan.learning_rate.base = 0.02;
    plan.evaluation.every_epochs = 0;
    return plan;
  }

  TrainingResult train(int ranks, const plan::Plan& plan) {
    datasets_ = data::open_datasets(plan.data, files_);
    TrainingJob job;
    job.ranks = ranks;
    job.plan = plan;
    job.datasets = &datasets_;
    job.make_model = [&plan, this](int rank) {
      return model::make_model({.plan = &plan.model,
                                .shape = datasets_.train->shape(),
                                .compute = plan.precision.compute,
                                .seed = plan.seed,
                                .rank = rank});
    };
    return run_training(job);
  }

  data::FileStorage files_;
  data::Datasets datasets_;
};

double relative_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference += (a[i] - b[i]) * (a[i] - b[i]), norm += a[i] * a[i];
  return std::sqrt(difference / norm);
}

TEST_P(Workers, GiveTheSingleProcesssParametersInDoublePrecision) {
  auto plan = make_plan(DType::Float64);
  auto one = train(1, plan);
  for (int ranks : {2, 3, 4, 8}) {
    auto many = train(ranks, plan);
    double distance = relative_distance(one.parameters, many.parameters);
    RecordProperty("workers_" + std::to_string(ranks), std::to_string(distance));
    EXPECT_LT(distance, 1e-10) << ranks << " workers";
  }
}

TEST_P(Workers, GiveTheSingleProcesssParametersInSinglePrecision) {
  auto plan = make_plan(DType::Float32);
  auto one = train(1, plan);
  EXPECT_LT(relative_distance(one.parameters, train(3, plan).parameters), 1e-3);
  EXPECT_EQ(train(2, plan).outcomes[0].parameter_hash, train(2, plan).outcomes[0].parameter_hash);
}

TEST_P(Workers, GiveTheSameBitsWhereNoGradientIsBornInItsPlace) {
  auto plan = make_plan(DType::Float32);
  const auto placed = train(2, plan);
  plan.transport.trace_allocations = false;
  const auto copied = train(2, plan);
  EXPECT_EQ(copied.outcomes[0].parameter_hash, placed.outcomes[0].parameter_hash);
  EXPECT_LT(placed.outcomes[0].copies_per_step, copied.outcomes[0].copies_per_step);
  std::int64_t in_every_step = 0;
  for (const model::GradientTransfer& crossing : copied.outcomes[0].crossings) {
    if (crossing.copies == 0) continue;  // its layer wrote it in place itself
    EXPECT_EQ(crossing.copies, crossing.steps) << crossing.name << ": " << crossing.why;
    ++in_every_step;
  }
  EXPECT_EQ(in_every_step, copied.outcomes[0].copies_per_step);
}

INSTANTIATE_TEST_SUITE_P(Models, Workers, ::testing::Values("mlp", "cnn"));

}  // namespace
}  // namespace taxon::test
