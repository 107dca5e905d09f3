// Training through codecs: what is kept between steps is a part of the run.
#include "codec/codec.h"

#include <gtest/gtest.h>

#include <map>

#include "checkpoint/checkpoint.h"
#include "data/memory_storage.h"
#include "support/virtual_ranks.h"
#include "train/kept.h"
#include "train/toy_job.h"

namespace taxon::test {
namespace {

class TrainCoded : public Train, public ::testing::WithParamInterface<std::string> {
 protected:
  plan::Plan coded_plan() {
    plan::Plan plan = toy_plan(DType::Float32);
    plan.optimiser.rule = "sgd";
    plan::CodecPlan& codec = plan.exchange.levels[0].codec;
    codec.name = GetParam();
    codec.density = 0.2;
    codec.columns = 1;
    codec.block = 64;
    codec.threshold = 0.01;
    codec.rank = 1;
    const codec::CodecRow& row = codec::find_codec(codec.name);
    codec.masking = row.sends_entries;
    if (row.sends_entries || row.votes) codec.momentum = 0.5;
    if (row.votes) plan.learning_rate.base *= 0.1;  // steps are as long as there are parameters
    return plan;
  }
  static TrainingJob resumed(TrainingJob job, data::Storage* storage) {
    job.storage = storage;
    job.out = "run";
    job.start = train::TrainOptions::Start::Resume;
    return job;
  }
};

TEST_P(TrainCoded, TrainsAndKeepsReplicasEqual) {
  plan::Plan plan = coded_plan();
  plan.length.steps = 120;
  for (int ranks : {1, 3, 4}) {
    const auto result = run_training(job(ranks, plan));
    for (const auto& outcome : result.outcomes)
      EXPECT_EQ(outcome.parameter_hash, result.outcomes[0].parameter_hash);
    const auto& steps = result.recorders[0].steps;
    EXPECT_LT(steps.back().loss, 0.9 * steps.front().loss) << ranks;
  }
}

TEST_P(TrainCoded, AnInterruptedRunContinuesBitForBit) {
  const plan::Plan plan = coded_plan();
  const auto whole = run_training(job(4, plan));
  data::MemoryStorage storage;
  TrainingJob first = job(4, plan);
  first.storage = &storage;
  first.out = "run";
  first.stop_after = 16;
  const auto stopped = run_training(first);
  EXPECT_EQ(stopped.outcomes[3].end, train::Outcome::End::Interrupted);
  const auto rest = run_training(resumed(job(4, plan), &storage));
  EXPECT_EQ(rest.recorders[0].info.start_step, stopped.outcomes[0].steps);
  EXPECT_EQ(rest.outcomes[0].parameter_hash, whole.outcomes[0].parameter_hash);
}

using Sums = std::map<std::string, std::vector<double>>;

/// Adds up, by name, what ranks kept.
void add_kept(const std::vector<checkpoint::LogicalTensor>& tensors, Sums* sums) {
  for (const auto& tensor : tensors) {
    if (!tensor.name.starts_with("level ")) continue;
    auto values = as_span<float>(ConstView(tensor.bytes.data(), tensor.bytes.size()));
    auto& sum = (*sums)[tensor.name];
    sum.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
  }
}

TEST_P(TrainCoded, AnotherWorldSizeSharesWhatWasKept) {
  const plan::Plan plan = coded_plan();
  data::MemoryStorage storage;
  TrainingJob first = job(4, plan);
  first.storage = &storage;
  first.out = "run";
  first.stop_after = 16;
  run_training(first);
  const auto saved = checkpoint::load(storage, *checkpoint::find_latest(storage, "run"));
  Sums before;
  for (const auto& tensors : saved.per_rank) add_kept(tensors, &before);
  EXPECT_EQ(before.empty(), !codec::find_codec(GetParam()).biased);
  for (int ranks : {3, 6}) {
    const auto share = train::share_kept(saved, plan, ranks);
    Sums after;
    for (int rank = 0; rank < ranks; ++rank) add_kept(share, &after);
    ASSERT_EQ(before.size(), after.size());
    for (const auto& [name, sums] : before)
      for (std::size_t i = 0; i < sums.size(); ++i)
        EXPECT_NEAR(after.at(name)[i], sums[i], 1e-6 * (1 + std::abs(sums[i]))) << name;
  }
  const auto rest = run_training(resumed(job(3, plan), &storage));
  EXPECT_EQ(rest.recorders[0].info.start_step, saved.steps);
  EXPECT_EQ(rest.outcomes[2].parameter_hash, rest.outcomes[0].parameter_hash);
}

TEST_P(TrainCoded, TheVirtualWorldGivesLoopbacksBits) {
  plan::Plan plan = coded_plan();
  plan.length.steps = 12;
  for (int ranks : {2, 3}) {
    TrainingJob between = job(ranks, plan);
    between.share_memory = false;
    const auto expected = run_training(between);
    TrainingResult result;
    result.outcomes.resize(static_cast<std::size_t>(ranks));
    result.recorders.resize(static_cast<std::size_t>(ranks));
    sim::World world(delayed(separate_hosts(ranks)), ranks, {.seed = 3});
    sim::RankBody body = [&](comm::Runtime& runtime) { return train_over(&between, &runtime, &result); };
    const auto report = world.run(body);
    if (report.failure) std::rethrow_exception(report.failure);
    EXPECT_EQ(result.outcomes[0].parameter_hash, expected.outcomes[0].parameter_hash);
    EXPECT_EQ(result.outcomes[0].bytes_sent_per_step, expected.outcomes[0].bytes_sent_per_step);
  }
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const codec::CodecRow& row : codec::codec_table()) names.emplace_back(row.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Codecs, TrainCoded, ::testing::ValuesIn(names()),
                         [](const ::testing::TestParamInfo<std::string>& info) { return info.param; });

}  // namespace
}  // namespace taxon::test
