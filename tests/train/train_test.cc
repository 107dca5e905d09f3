#include "train/train.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/safetensors.h"
#include "data/memory_storage.h"
#include "model/forwarding.h"
#include "train/toy_job.h"

namespace taxon::test {
namespace {

TEST_F(Train, AnyNumberOfWorkersGivesTheSingleProcesssParameters) {
  for (const char* rule : {"sgd", "momentum", "nesterov", "adamw"}) {
    plan::Plan plan = toy_plan();
    plan.optimiser.rule = rule;
    plan.optimiser.weight_decay = 0.01;
    if (plan.optimiser.rule == "adamw") plan.learning_rate.base = 0.01;
    auto one = run_training(job(1, plan));
    EXPECT_EQ(one.outcomes[0].steps, 50);
    for (int ranks : {2, 3, 4, 8}) {
      auto many = run_training(job(ranks, plan));
      EXPECT_LT(relative_distance(one.parameters, many.parameters), 1e-10) << rule << " on " << ranks;
      for (const auto& outcome : many.outcomes)
        EXPECT_EQ(outcome.parameter_hash, many.outcomes[0].parameter_hash);
      EXPECT_NEAR(many.outcomes[0].test.loss, one.outcomes[0].test.loss, 1e-9);
    }
  }
}

TEST_F(Train, LearnsTheToyTask) {
  auto result = run_training(job(2, toy_plan(DType::Float32)));
  EXPECT_GT(result.outcomes[0].test.scores["accuracy"], 0.9);
  EXPECT_LT(result.outcomes[0].test.loss, result.recorders[0].evaluations.front().loss + 1e-9);
}

TEST_F(Train, TwoRunsWithOneSeedAreBitIdentical) {
  auto plan = toy_plan(DType::Float32);
  for (int ranks : {1, 3}) {
    auto first = run_training(job(ranks, plan));
    auto second = run_training(job(ranks, plan));
    EXPECT_EQ(first.outcomes[0].parameter_hash, second.outcomes[0].parameter_hash);
    plan::Plan other = plan;
    other.seed = 2;
    EXPECT_NE(run_training(job(ranks, other)).outcomes[0].parameter_hash, first.outcomes[0].parameter_hash);
  }
}

TEST_F(Train, HowCommunicationIsHiddenChangesNoBit) {
  for (bool share_memory : {true, false}) {
    auto plan = toy_plan(DType::Float32);
    // Rows whose bits don't depend on how a bucket is cut.
    plan.exchange.levels[0].collective = share_memory ? "direct" : "tree";
    auto plain = job(3, plan);
    plain.share_memory = share_memory;
    const auto expected = run_training(plain).outcomes[0].parameter_hash;
    for (const auto overlap : {plan::Overlap::Forward, plan::Overlap::Backward})
      for (const auto order : {plan::BucketOrder::Priority, plan::BucketOrder::Backward})
        for (std::int64_t slice : {64, 1 << 20}) {
          plan.exchange.overlap = overlap;
          plan.exchange.order = order;
          plan.exchange.slice_bytes = slice;
          plan.exchange.in_flight = 2;
          auto tried = job(3, plan);
          tried.share_memory = share_memory;
          auto result = run_training(tried);
          EXPECT_EQ(result.outcomes[0].parameter_hash, expected)
              << plan::to_string(overlap) << " " << plan::to_string(order) << " " << slice;
          EXPECT_EQ(result.outcomes[2].parameter_hash, result.outcomes[0].parameter_hash);
          EXPECT_GT(result.outcomes[0].test.scores["accuracy"], 0.9);
        }
  }
}

TEST_F(Train, WithoutSharedMemoryTheMathematicsIsTheSame) {
  auto plan = toy_plan();
  auto shared = run_training(job(3, plan));
  auto messages = job(3, plan);
  messages.share_memory = false;
  EXPECT_LT(relative_distance(run_training(messages).parameters, shared.parameters), 1e-10);
}

TEST_F(Train, RanksWithoutSamplesAreHandled) {
  auto plan = toy_plan();
  plan.batch.global = 3;  // the epoch's last batch has one sample; with 5 ranks some never have any
  plan.length.steps = 40;
  auto one = run_training(job(1, plan));
  auto five = run_training(job(5, plan));
  EXPECT_LT(relative_distance(one.parameters, five.parameters), 1e-10);
}

TEST_F(Train, MicroBatchesChangeNothing) {  // the toy model ignores the cut; the loop must not
  auto plan = toy_plan();
  plan.batch.micro_batches = 2;
  EXPECT_LT(
      relative_distance(run_training(job(2, toy_plan())).parameters, run_training(job(2, plan)).parameters),
      1e-12);
}

TEST_F(Train, ClippingUsesTheNormOfTheWholeGradient) {
  auto plan = toy_plan();
  plan.optimiser.clip_norm = 0.05;
  auto one = run_training(job(1, plan));
  auto four = run_training(job(4, plan));
  EXPECT_LT(relative_distance(one.parameters, four.parameters), 1e-10);
  EXPECT_GT(one.recorders[0].steps.front().gradient_norm, 0.05);
  EXPECT_GT(relative_distance(one.parameters, run_training(job(1, toy_plan())).parameters), 1e-3);
}

TEST_F(Train, BFloat16ComputesWithFloat32Masters) {
  auto plan = toy_plan(DType::Float32);
  plan.precision.compute = DType::BFloat16;
  auto exact = run_training(job(2, toy_plan(DType::Float32)));
  auto rounded = run_training(job(2, plan));
  EXPECT_GT(rounded.outcomes[0].test.scores["accuracy"], 0.9);
  double distance = relative_distance(exact.parameters, rounded.parameters);
  EXPECT_GT(distance, 1e-6);
  EXPECT_LT(distance, 0.1);
}

TEST_F(Train, AFrozenParameterStaysAndIsNotSent) {
  auto plan = toy_plan();
  plan.model.frozen = {"hidden.b*"};
  const auto frozen = job(2, plan);
  const auto before = frozen.make_model(0)->parameters();
  const auto result = run_training(frozen);
  const std::size_t bias = kHidden * kInputs;  // behind hidden.weight
  for (std::size_t h = 0; h < kHidden; ++h) EXPECT_EQ(result.parameters[bias + h], before[bias + h]);
  EXPECT_NE(result.parameters[0], before[0]);
  for (const auto& bucket : result.recorders[0].info.plan.resolved.buckets)
    for (const auto& name : bucket.parameters) EXPECT_NE(name, "hidden.bias");
}

TEST_F(Train, AFrozenParameterMayBeInfinite) {
  auto plan = toy_plan();
  plan.model.frozen = {"hidden.b*"};
  auto masked = job(2, plan);
  masked.make_model = [make = masked.make_model](int rank) {
    auto model = make(rank);
    auto values = model->parameters();
    values[kHidden * kInputs] = -std::numeric_limits<double>::infinity();  // behind hidden.weight
    model->set_parameters(values);
    return model;
  };
  data::MemoryStorage storage;
  masked.storage = &storage;
  masked.out = "run";
  EXPECT_EQ(run_training(masked).outcomes[0].end, train::Outcome::End::Complete);
  EXPECT_TRUE(checkpoint::load_newest(storage, "run", checkpoint::Weights::Finite));
}

TEST_F(Train, AnInterruptedRunContinuesBitForBit) {
  for (const char* rule : {"momentum", "adamw"}) {
    plan::Plan plan = toy_plan(DType::Float32);
    plan.optimiser.rule = rule;
    auto whole = run_training(job(3, plan));
    data::MemoryStorage storage;
    TrainingJob first = stopping(job(3, plan), 17, &storage);
    auto stopped = run_training(first);
    EXPECT_EQ(stopped.outcomes[2].end, train::Outcome::End::Interrupted);
    EXPECT_LT(stopped.outcomes[0].steps, 50);
    for (const auto& outcome : stopped.outcomes) EXPECT_EQ(outcome.steps, stopped.outcomes[0].steps);
    TrainingJob rest = going_on(job(3, plan), &storage);
    auto resumed = run_training(rest);
    EXPECT_EQ(resumed.recorders[0].info.start_step, stopped.outcomes[0].steps);
    EXPECT_EQ(resumed.outcomes[0].steps, 50);
    EXPECT_EQ(resumed.outcomes[0].parameter_hash, whole.outcomes[0].parameter_hash) << rule;
    EXPECT_EQ(resumed.outcomes[0].test.loss, whole.outcomes[0].test.loss);
  }
}

TEST_F(Train, ARunThatIsOutOfTimeIsCompleteAndTested) {
  plan::Plan plan = toy_plan();
  plan.length.seconds = 1e-9;
  const auto result = run_training(job(3, plan));
  for (const auto& outcome : result.outcomes) {
    EXPECT_EQ(outcome.end, train::Outcome::End::Complete);
    EXPECT_EQ(outcome.steps, 2);  // the second is underway when the first one's time is known
    EXPECT_GT(outcome.test.loss, 0);
  }
  EXPECT_EQ(result.recorders[0].evaluations.back().samples, result.outcomes[0].samples);
}

TEST_F(Train, TestsSayWhatWasSentUntilThen) {
  const auto result = run_training(job(3, toy_plan()));
  const auto& seen = result.recorders[0].evaluations;
  ASSERT_GT(seen.size(), 1u);
  double before = 0;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_GT(seen[i].bytes_sent, before);
    EXPECT_EQ(seen[i].bytes_sent, result.recorders[2].evaluations[i].bytes_sent);
    before = seen[i].bytes_sent;
  }
}

TEST_F(Train, ACheckpointResumesOnAnotherNumberOfWorkers) {
  plan::Plan plan = toy_plan();
  auto whole = run_training(job(2, plan));
  data::MemoryStorage storage;
  TrainingJob first = stopping(job(2, plan), 20, &storage);
  run_training(first);
  TrainingJob rest = going_on(job(5, plan), &storage);
  EXPECT_LT(relative_distance(run_training(rest).parameters, whole.parameters), 1e-10);
}

TEST_F(Train, ResumingWithoutACheckpointStartsFreshAndSaysSo) {
  data::MemoryStorage storage;
  TrainingJob fresh = going_on(job(2, toy_plan()), &storage);
  auto result = run_training(fresh);
  ASSERT_EQ(result.recorders[0].notices.size(), 1u);
  EXPECT_NE(result.recorders[0].notices[0].find("no checkpoint"), std::string::npos);
  EXPECT_EQ(result.outcomes[0].steps, 50);
  EXPECT_TRUE(storage.exists("run/model.safetensors"));
}

class ThrowsAtStep : public model::ForwardingModel {
 public:
  ThrowsAtStep(std::unique_ptr<model::Model> inner, int step)
      : ForwardingModel(std::move(inner)), left_(step) {}
  model::StepOutput forward_backward(const model::StepInput& input, int from,
                                     tensor::Milestones& marks) override {
    if (--left_ == 0) throw Error(ErrorKind::Data, "the sample is broken");
    return ForwardingModel::forward_backward(input, from, marks);
  }

 private:
  int left_;
};

TEST_F(Train, AFailureOfOneRankUnwindsAll) {
  for (int bad : {0, 2}) {
    auto broken = job(3, toy_plan());
    auto make = broken.make_model;
    broken.make_model = [make, bad](int rank) -> std::unique_ptr<model::Model> {
      auto model = make(rank);
      if (rank != bad) return model;
      return std::make_unique<ThrowsAtStep>(std::move(model), 7);
    };
    try {
      run_training(broken);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Data);
    }
  }
}

class TakesFew final : public ThrowsAtStep {
 public:
  static constexpr std::int64_t kMost = 8;
  explicit TakesFew(std::unique_ptr<model::Model> inner)
      : ThrowsAtStep(std::move(inner), /*step=*/0), spec_(ThrowsAtStep::spec()) {
    spec_.largest_batch = kMost;
  }
  const model::ModelSpec& spec() const override { return spec_; }
  model::StepOutput evaluate(data::Inputs x, data::Values y) override {
    EXPECT_LE(y.size(), static_cast<std::size_t>(kMost));
    return ThrowsAtStep::evaluate(x, y);
  }

 private:
  model::ModelSpec spec_;
};

TEST_F(Train, TestsTakeNoMoreSamplesThanTheModelDoes) {
  const auto usual = run_training(job(2, toy_plan()));
  auto few = job(2, toy_plan());
  few.make_model = [make = few.make_model](int rank) { return std::make_unique<TakesFew>(make(rank)); };
  EXPECT_NEAR(run_training(few).outcomes[0].test.loss, usual.outcomes[0].test.loss, 1e-9);
}

TEST_F(Train, ARankWithOtherDataIsNamed) {
  data::Datasets fewer, smaller;
  fewer.train = std::make_unique<data::Blobs>(samples(99, 1));
  fewer.test = std::make_unique<data::Blobs>(samples(37, 2));
  smaller.train = std::make_unique<data::Blobs>(samples(100, 1));
  smaller.test = std::make_unique<data::Blobs>(samples(36, 2));
  for (const auto* others : {&fewer, &smaller}) {
    TrainingJob mixed = job(3, toy_plan());
    mixed.own_datasets = {{1, others}};
    try {
      run_training(mixed);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Mismatch);
      EXPECT_THAT(error.what(),
                  testing::HasSubstr("the data sets differ between ranks: most have 100 samples of "
                                     "inputs float32 [6] and one int64 label, 37 to test with, but "
                                     "not rank 1 ("));
    }
  }
}

TEST_F(Train, ReportsEveryStepOnceWithTheLossOfThatStep) {
  auto one = run_training(job(1, toy_plan()));
  auto three = run_training(job(3, toy_plan()));
  ASSERT_EQ(three.recorders[1].steps.size(), 50u);
  for (std::size_t s = 0; s < 50; ++s) {
    EXPECT_EQ(three.recorders[1].steps[s].step, static_cast<std::int64_t>(s) + 1);
    EXPECT_NEAR(three.recorders[1].steps[s].loss, one.recorders[0].steps[s].loss, 1e-9);
  }
}

TEST_F(Train, BuffersAreAveragedForTheSavedModelAndKeptPerRankInCheckpoints) {
  data::MemoryStorage storage;
  auto two = job(2, toy_plan());
  two.plan.batch.global = 13;  // shares of 7 and 6
  two.plan.length.steps = 3;
  two.storage = &storage;
  two.out = "run";
  run_training(two);
  auto saved = checkpoint::read_safetensors(storage, "run/model.safetensors");
  bool found = false;
  for (const auto& tensor : saved)
    if (tensor.name == "seen") {
      found = true;
      EXPECT_EQ(as_span<float>(ConstView(tensor.bytes.data(), tensor.bytes.size()))[0], 19.5f);
    }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace taxon::test
