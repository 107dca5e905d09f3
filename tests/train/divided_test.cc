// A model that ranks hold parts of trains as one that a rank has whole, whatever the mesh and its schedule.
#include "train/start/divided.h"

#include <gmock/gmock.h>

#include "checkpoint/safetensors.h"
#include "data/memory_storage.h"
#include "support/errors.h"
#include "train/bytes.h"
#include "train/start/parts.h"
#include "train/toy_job.h"

namespace taxon::test {
namespace {

using ::testing::HasSubstr;

template <class Body>
std::exception_ptr error_of(Body&& body) {
  try {
    body();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

class Divided : public Train {
 protected:
  Divided() {
    plan_ = toy_plan();
    plan_.batch.micro_batches = 3;
    plan_.optimiser.rule = "adamw";
    plan_.learning_rate.base = 0.02;
  }
  /// Weights are the seed's, not those of rank 0: a rank has nobody to tell it other ones.
  TrainingJob divided_job(int ranks, plan::Plan plan, data::MemoryStorage* storage) {
    TrainingJob result = job(ranks, std::move(plan));
    auto options = model_options(result.plan);
    options.hidden = 6;  // which two members can share
    result.make_model = [options](int) { return std::make_unique<model::Perceptron>(options); };
    result.storage = storage;
    result.out = "run";
    return result;
  }
  plan::Plan on(int pipeline, std::string schedule, int tensor = 1) const {
    plan::Plan plan = plan_;
    plan.mesh.pipeline = pipeline;
    plan.mesh.tensor = tensor;
    plan.pipeline.schedule = std::move(schedule);
    return plan;
  }
  static std::vector<double> trained(const data::MemoryStorage& storage) {
    std::vector<double> values;
    for (const auto& tensor : checkpoint::read_safetensors(storage, "run/model.safetensors"))
      if (tensor.type == DType::Float64)  // not a buffer
        for (double value : as_span<double>(ConstView(tensor.bytes.data(), tensor.bytes.size())))
          values.push_back(value);
    return values;
  }
  plan::Plan plan_;
};

TEST_F(Divided, TrainsAsOneRankDoes) {
  for (double clip : {0.0, 0.05}) {
    plan_.optimiser.clip_norm = clip;
    data::MemoryStorage alone;
    const auto expected = run_training(divided_job(1, plan_, &alone));
    for (const auto& [pipeline, tensor, schedule] :
         {std::tuple(2, 1, "gpipe"), {2, 1, "1f1b"}, {2, 1, "zb_h1"}, {1, 2, "gpipe"}, {2, 2, "1f1b"}})
      for (const char* topology : {"all_reduce", "sharded"})
        for (int replicas : {1, 2, 3}) {
          SCOPED_TRACE(testing::Message() << pipeline << " x " << tensor << " " << schedule << " " << topology
                                          << " " << replicas << " " << clip);
          plan::Plan plan = on(pipeline, schedule, tensor);
          plan.exchange.levels[0].topology = topology;
          data::MemoryStorage storage;
          const auto result = run_training(divided_job(pipeline * tensor * replicas, plan, &storage));
          EXPECT_LT(relative_distance(trained(alone), trained(storage)), 1e-12);
          ASSERT_EQ(result.recorders[0].steps.size(), expected.recorders[0].steps.size());
          for (std::size_t step = 0; step < 50; ++step) {
            const auto& seen = result.recorders[0].steps[step];
            EXPECT_NEAR(seen.loss, expected.recorders[0].steps[step].loss, 1e-11) << step;
            EXPECT_NEAR(seen.gradient_norm, expected.recorders[0].steps[step].gradient_norm, 1e-11) << step;
          }
          EXPECT_NEAR(result.outcomes[0].test.loss, expected.outcomes[0].test.loss, 1e-11);
          EXPECT_EQ(result.outcomes[0].test.scores.means.counts,
                    expected.outcomes[0].test.scores.means.counts);
          for (const auto& outcome : result.outcomes)
            EXPECT_EQ(outcome.parameter_hash, result.outcomes[0].parameter_hash);
        }
  }
}

TEST_F(Divided, GivesTheSameBitsAgain) {
  data::MemoryStorage first, second;
  const auto once = run_training(divided_job(4, on(2, "1f1b"), &first));
  const auto again = run_training(divided_job(4, on(2, "1f1b"), &second));
  EXPECT_EQ(once.outcomes[0].parameter_hash, again.outcomes[0].parameter_hash);
  EXPECT_EQ(trained(first), trained(second));
}

TEST_F(Divided, TheEndOfAnExchangeBesideTheNextPassChangesNoBit) {
  for (const auto& [pipeline, tensor] : {std::pair(2, 1), {1, 2}, {2, 2}})
    for (double clip : {0.0, 0.05}) {
      plan::Plan plan = on(pipeline, "1f1b", tensor);
      plan.optimiser.clip_norm = clip;
      plan.exchange.slice_bytes = 64;
      const auto hash = [&](plan::Overlap overlap) {
        data::MemoryStorage storage;
        plan.exchange.overlap = overlap;
        TrainingJob job = divided_job(2 * pipeline * tensor, plan, &storage);
        job.share_memory = false;
        return run_training(job).outcomes[0].parameter_hash;
      };
      EXPECT_EQ(hash(plan::Overlap::Forward), hash(plan::Overlap::Backward)) << pipeline << tensor << clip;
    }
}

TEST_F(Divided, SharesWithoutSamplesAndMicroBatchesWithoutSamplesDoNothing) {
  plan_.batch.global = 5;  // of 3 replicas one has a single sample
  plan_.batch.micro_batches = 2;
  data::MemoryStorage alone, storage;
  run_training(divided_job(1, plan_, &alone));
  run_training(divided_job(6, on(2, "1f1b"), &storage));
  EXPECT_LT(relative_distance(trained(alone), trained(storage)), 1e-12);
}

TEST_F(Divided, GoesOnWhereItStopped) {
  data::MemoryStorage whole, storage;
  const auto expected = run_training(divided_job(4, on(2, "1f1b"), &whole));
  TrainingJob first = divided_job(4, on(2, "1f1b"), &storage);
  first.stop_after = 10;
  EXPECT_EQ(run_training(first).outcomes[0].end, train::Outcome::End::Interrupted);
  TrainingJob rest = divided_job(4, on(2, "1f1b"), &storage);
  rest.start = train::TrainOptions::Start::Resume;
  EXPECT_EQ(run_training(rest).outcomes[0].parameter_hash, expected.outcomes[0].parameter_hash);
  EXPECT_EQ(trained(storage), trained(whole));
}

/// Members that made their models themselves have other weights, and a checkpoint has the first one's of what
/// they share.
TEST_F(Divided, MembersBeginWithTheSameOfWhatTheyShare) {
  data::MemoryStorage whole, storage;
  const auto apart = [&](data::MemoryStorage* to) {
    TrainingJob job = divided_job(4, on(2, "1f1b", 2), to);
    auto options = model_options(job.plan);
    options.hidden = 6;
    job.make_model = [options](int rank) mutable {
      options.seed = static_cast<std::uint64_t>(rank);
      return std::make_unique<model::Perceptron>(options);
    };
    return job;
  };
  const auto expected = run_training(apart(&whole));
  TrainingJob first = apart(&storage);
  first.stop_after = 10;
  run_training(first);
  TrainingJob rest = apart(&storage);
  rest.start = train::TrainOptions::Start::Resume;
  EXPECT_EQ(run_training(rest).outcomes[0].parameter_hash, expected.outcomes[0].parameter_hash);
}

TEST_F(Divided, ACheckpointOfOneMeshLoadsUnderAnyOther) {
  struct Mesh {
    int ranks, pipeline, tensor;
  };
  data::MemoryStorage alone;
  run_training(divided_job(1, plan_, &alone));
  const Mesh meshes[] = {{1, 1, 1}, {2, 1, 1}, {2, 2, 1}, {6, 2, 1}, {2, 1, 2}, {4, 2, 2}};
  for (const Mesh& from : meshes)
    for (const Mesh& to : meshes) {
      SCOPED_TRACE(testing::Message() << from.ranks << "/" << from.pipeline << "/" << from.tensor << " to "
                                      << to.ranks << "/" << to.pipeline << "/" << to.tensor);
      data::MemoryStorage storage;
      TrainingJob first = divided_job(from.ranks, on(from.pipeline, "1f1b", from.tensor), &storage);
      first.stop_after = 20;
      run_training(first);
      TrainingJob rest = divided_job(to.ranks, on(to.pipeline, "gpipe", to.tensor), &storage);
      rest.start = train::TrainOptions::Start::Resume;
      const auto resumed = run_training(rest);
      EXPECT_GT(resumed.recorders[0].info.start_samples, 0);
      EXPECT_LT(relative_distance(trained(alone), trained(storage)), 1e-12);
    }
}

/// One sample is no number.
class WithHole final : public data::Dataset {
 public:
  WithHole(data::BlobOptions options, std::int64_t hole) : inner_(options), hole_(hole) {}
  std::int64_t size() const override { return inner_.size(); }
  const data::SampleShape& shape() const override { return inner_.shape(); }
  void read(std::span<const std::int64_t> indices, std::span<float> inputs,
            std::span<std::int64_t> labels) const override {
    inner_.read(indices, inputs, labels);
    for (std::size_t i = 0; i < indices.size(); ++i)
      if (indices[i] == hole_) inputs[i * kInputs] = std::numeric_limits<float>::quiet_NaN();
  }

 private:
  data::Blobs inner_;
  std::int64_t hole_;
};

TEST_F(Divided, WhatIsNotFiniteStopsTheRunOrIsSkippedByAllStages) {
  datasets_.train = std::make_unique<WithHole>(samples(100, 1), 70);
  plan_.on_divergence = plan::OnDivergence::Stop;
  data::MemoryStorage stopped, alone, parts;
  const auto error = error_of([&] { run_training(divided_job(4, on(2, "1f1b"), &stopped)); });
  EXPECT_EQ(kind_of(error), ErrorKind::Diverged) << message_of(error);
  plan_.on_divergence = plan::OnDivergence::Skip;
  const auto expected = run_training(divided_job(1, plan_, &alone));
  const auto skipped = run_training(divided_job(4, on(2, "1f1b"), &parts));
  EXPECT_GT(expected.outcomes[0].skipped, 0);
  EXPECT_EQ(skipped.outcomes[0].skipped, expected.outcomes[0].skipped);
  EXPECT_LT(relative_distance(trained(alone), trained(parts)), 1e-12);
}

model::ModelSpec four_segments() {
  model::ModelSpec spec;
  spec.name = "four";
  for (const char* name : {"a", "b", "c", "d"}) spec.segments.push_back({.name = name, .parameters = {}});
  spec.segments[0].forward_flops = 6;
  for (std::size_t s = 1; s < 4; ++s) spec.segments[s].forward_flops = 2;
  return spec;
}

TEST(Cut, IsBalancedOrAsNamed) {
  const auto ranges = [](const std::vector<Range>& stages) {
    std::vector<std::pair<std::size_t, std::size_t>> all;
    for (Range stage : stages) all.emplace_back(stage.begin, stage.end());
    return all;
  };
  using Ranges = std::vector<std::pair<std::size_t, std::size_t>>;
  EXPECT_EQ(ranges(train::cut_into_stages(four_segments(), 2, {})), (Ranges{{0, 1}, {1, 4}}));
  EXPECT_EQ(ranges(train::cut_into_stages(four_segments(), 3, {"c", "d"})), (Ranges{{0, 2}, {2, 3}, {3, 4}}));
}

TEST(Cut, RefusesWhatTheModelHasNot) {
  const auto cut = [](int stages, std::vector<std::string> names) {
    return message_of(error_of([&] { train::cut_into_stages(four_segments(), stages, names); }));
  };
  EXPECT_THAT(cut(5, {}), HasSubstr("5 stages need as many segments, and model four has 4: a, b, c, d"));
  EXPECT_THAT(cut(2, {"e"}), HasSubstr("model four has no segment e, but a, b, c, d"));
  EXPECT_THAT(cut(3, {"c", "b"}), HasSubstr("b does not come after c"));
  EXPECT_THAT(cut(3, {"c"}), HasSubstr("1 names make 2 stages, and the schedule has 3"));
}

TEST(TensorParts, AreCutAndJoinedAlongAnyDimensionInBlocks) {
  std::vector<float> values(2 * 12 * 4);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const ConstView bytes = as_const_view(std::span<const float>(values));
  const checkpoint::LogicalTensor whole{
      "w", DType::Float32, {2, 12, 4}, {bytes.data(), bytes.data() + bytes.size()}};
  for (const auto& [split, blocks] : {std::pair(0, 1), {1, 1}, {1, 3}, {2, 2}})
    for (int members : {1, 2}) {
      std::vector<checkpoint::LogicalTensor> parts;
      for (int member = 0; member < members; ++member)
        parts.push_back(train::cut_tensor(whole, split, blocks, members, member));
      std::vector<const checkpoint::LogicalTensor*> all;
      for (const auto& part : parts) all.push_back(&part);
      EXPECT_EQ(train::join_tensor(all, split, blocks).bytes, whole.bytes) << split << " " << blocks;
    }
  const checkpoint::LogicalTensor flags{"m", DType::UInt8, {2}, std::vector<std::byte>(2), true};
  const auto half = train::cut_tensor(flags, 0, 1, 2, 0);
  EXPECT_TRUE(half.is_flags && train::join_tensor({&half, &half}, 0, 1).is_flags);
  train::Packer packer;
  packer.tensors({flags});
  const auto packed = packer.take();
  EXPECT_TRUE(train::Unpacker(packed, Rank(0)).tensors()[0].is_flags);
  // Of three blocks of four the second member has the second half of each.
  const auto part = train::cut_tensor(whole, 1, 3, 2, 1);
  EXPECT_EQ(part.shape, (std::vector<std::int64_t>{2, 6, 4}));
  EXPECT_EQ(as_span<float>(ConstView(part.bytes.data(), part.bytes.size()))[0], 2 * 4);
}

}  // namespace
}  // namespace taxon::test
