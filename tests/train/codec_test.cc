// Training through codecs: what is kept between steps is a part of the run.
#include "codec/codec.h"

#include <gtest/gtest.h>

#include <map>

#include "checkpoint/checkpoint.h"
#include "data/memory_storage.h"
#include "support/virtual_ranks.h"
#include "train/state/redistribution.h"
#include "train/toy_job.h"

namespace taxon::test {
namespace {

/// A level that carries codecs.
struct Way {
  std::string name;
  plan::LevelPlan level;
  bool (*carries)(const codec::CodecRow& row);
  int servers = 0;  // dedicated, beside as many workers as a test has ranks
  bool meets() const { return level.rule != "sum"; }
};

std::vector<Way> ways() {
  auto any = [](const codec::CodecRow&) { return true; };
  auto alone = [](const codec::CodecRow& row) { return codec::stands_alone(row); };
  auto served = [](const codec::CodecRow& row) { return codec::stands_alone(row) || codec::asks(row); };
  auto asks = [](const codec::CodecRow& row) { return codec::asks(row); };
  auto sized = [](const codec::CodecRow& row) { return !row.votes; };
  plan::LevelPlan difference, answers{.topology = "servers"};
  difference.codec.feedback = plan::FeedbackKind::Difference;
  answers.codec.answer = "int8";
  return {
      {"all_reduce", {}, any},
      {"difference", difference, alone},
      {"servers", {.topology = "servers"}, served},
      {"dedicated_servers", {.topology = "servers"}, asks, 2},
      {"answering_servers", answers, alone, 2},
      {"sharded", {.topology = "sharded"}, alone},
      {"meeting", {.rule = "average", .period = 3}, sized},
      {"sharded_meeting",
       {.topology = "sharded",
        .rule = "outer_nesterov",
        .period = 6,
        .rate = 0.7,
        .momentum = 0.5,
        .fragments = 2,
        .delay = 1},
       alone},
  };
}

struct CodedWay {
  std::string codec;
  Way way;
  friend std::ostream& operator<<(std::ostream& out, const CodedWay& coded) {
    return out << coded.codec << " " << coded.way.name;
  }
};

class TrainCoded : public Train, public ::testing::WithParamInterface<CodedWay> {
 protected:
  static const Way& way() { return GetParam().way; }
  plan::Plan coded_plan() {
    plan::Plan plan = toy_plan(DType::Float32);
    plan.optimiser.rule = "sgd";
    plan.exchange.levels = {way().level};
    plan.mesh.servers = way().servers;
    plan::CodecPlan& codec = plan.exchange.levels[0].codec;
    codec.name = GetParam().codec;
    const codec::CodecRow& row = codec::find_codec(codec.name);
    codec.options = codec::options_for(
        row,
        {{"density", 0.2}, {"drawn", 0.5}, {"columns", 1}, {"block", 64}, {"threshold", 0.01}, {"rank", 1}});
    codec.masking = row.sends_entries;
    const bool has_momentum = !way().meets() && codec.feedback != plan::FeedbackKind::Difference;
    if ((row.sends_entries || row.votes) && has_momentum) codec.momentum = 0.5;
    if (row.votes) plan.learning_rate.base *= 0.1;  // steps are as long as there are parameters
    return plan;
  }
  /// Of so many workers.
  TrainingJob job_of(int workers, const plan::Plan& plan) { return job(workers + way().servers, plan); }
};

TEST_P(TrainCoded, TrainsAndKeepsReplicasEqual) {
  plan::Plan plan = coded_plan();
  plan.length.steps = 120;
  for (int ranks : {1, 3, 4}) {
    const auto result = run_training(job_of(ranks, plan));
    for (const auto& outcome : result.outcomes)
      EXPECT_EQ(outcome.parameter_hash, result.outcomes[0].parameter_hash);
    const auto& steps = result.recorders[0].steps;
    EXPECT_LT(steps.back().loss, 0.9 * steps.front().loss) << ranks;
  }
}

TEST_P(TrainCoded, AnInterruptedRunContinuesBitForBit) {
  const plan::Plan plan = coded_plan();
  const auto whole = run_training(job_of(4, plan));
  data::MemoryStorage storage;
  TrainingJob first = stopping(job_of(4, plan), 16, &storage);
  const auto stopped = run_training(first);
  EXPECT_EQ(stopped.outcomes[3].end, train::Outcome::End::Interrupted);
  const auto rest = run_training(going_on(job_of(4, plan), &storage));
  EXPECT_EQ(rest.recorders[0].info.start_step, stopped.outcomes[0].steps);
  EXPECT_EQ(rest.outcomes[0].parameter_hash, whole.outcomes[0].parameter_hash);
}

using Sums = std::map<std::string, std::vector<double>>;

/// Of what a codec goes on from, the mean is taken: members have it alike, but for thresholds of sharded
/// gradients. What a rank's gradients left behind is its own.
bool is_averaged(const checkpoint::LogicalTensor& tensor) {
  return tensor.name.starts_with("level 0 sum of estimates/") || tensor.name.starts_with("level 0 factors ");
}

/// Adds up, by name, what ranks kept.
void add_kept(const std::vector<checkpoint::LogicalTensor>& tensors, bool averaged, Sums* sums) {
  for (const auto& tensor : tensors) {
    if (!tensor.name.starts_with("level ") && !tensor.name.starts_with("meets level 0 errors/")) continue;
    if (is_averaged(tensor) != averaged) continue;
    auto values = as_span<float>(ConstView(tensor.bytes.data(), tensor.bytes.size()));
    auto& sum = (*sums)[tensor.name];
    sum.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
  }
}

TEST_P(TrainCoded, AnotherWorldSizeSharesWhatWasKept) {
  const plan::Plan plan = coded_plan();
  data::MemoryStorage storage;
  TrainingJob first = stopping(job_of(4, plan), 16, &storage);
  run_training(first);
  const auto saved = checkpoint::load(storage, *checkpoint::find_latest(storage, "run"));
  Sums before, means;
  for (const auto& tensors : saved.per_rank) {
    add_kept(tensors, false, &before);
    add_kept(tensors, true, &means);
  }
  const bool keeps = plan.exchange.levels[0].codec.feedback == plan::FeedbackKind::Difference;
  EXPECT_EQ(before.empty() && means.empty(), !keeps && !codec::find_codec(GetParam().codec).biased);
  for (int ranks : {3, 6}) {
    const auto share = train::share_kept(saved, plan, ranks + way().servers);
    Sums after, mean;
    for (int rank = 0; rank < ranks; ++rank) add_kept(share, false, &after);
    add_kept(share, true, &mean);
    ASSERT_EQ(mean.size(), means.size());
    for (const auto& [name, sums] : means)
      for (std::size_t i = 0; i < sums.size(); ++i)
        EXPECT_FLOAT_EQ(static_cast<float>(mean.at(name)[i]), static_cast<float>(sums[i] / 4)) << name;
    ASSERT_EQ(before.size(), after.size());
    // Gradients are shares of a mean already; of replicas the mean is taken where they meet.
    const double scale = way().meets() ? ranks / 4.0 : 1;
    for (const auto& [name, sums] : before)
      for (std::size_t i = 0; i < sums.size(); ++i)
        EXPECT_NEAR(after.at(name)[i], scale * sums[i], 1e-6 * (1 + std::abs(sums[i]))) << name;
  }
  const auto rest = run_training(going_on(job_of(3, plan), &storage));
  EXPECT_EQ(rest.recorders[0].info.start_step, saved.steps);
  EXPECT_EQ(rest.outcomes[2].parameter_hash, rest.outcomes[0].parameter_hash);
}

TEST_P(TrainCoded, TheVirtualWorldGivesLoopbacksBits) {
  plan::Plan plan = coded_plan();
  plan.length.steps = 12;
  for (int ranks : {2, 3}) {
    TrainingJob between = job_of(ranks, plan);
    between.share_memory = false;
    const auto expected = run_training(between);
    TrainingResult result;
    result.outcomes.resize(static_cast<std::size_t>(between.ranks));
    result.recorders.resize(static_cast<std::size_t>(between.ranks));
    sim::World world(delayed(separate_hosts(between.ranks)), between.ranks, {.seed = 3});
    sim::RankBody body = [&](comm::Runtime& runtime) { return train_over(&between, &runtime, &result); };
    const auto report = world.run(body);
    if (report.failure) std::rethrow_exception(report.failure);
    EXPECT_EQ(result.outcomes[0].parameter_hash, expected.outcomes[0].parameter_hash);
    EXPECT_EQ(result.outcomes[0].bytes_sent_per_step, expected.outcomes[0].bytes_sent_per_step);
  }
}

/// 1-bit Adam: the codec begins when the second moment stays, and then carries first moments.
class OneBitAdam : public Train {
 protected:
  static plan::Plan frozen_plan(DType type) {
    plan::Plan plan = toy_plan(type);
    plan.optimiser.rule = "adamw";
    plan.optimiser.options.set("freeze_steps", 20);
    plan.learning_rate.base = 0.02;
    plan.length.steps = 120;
    return plan;
  }
};

TEST_F(OneBitAdam, WithoutACodecRanksAreOneWorker) {
  const plan::Plan plan = frozen_plan(DType::Float64);
  const auto one = run_training(job(1, plan)).parameters;
  EXPECT_LT(relative_distance(one, run_training(job(4, plan)).parameters), 1e-10);
  plan::Plan unfrozen = plan;
  unfrozen.optimiser.options.set("freeze_steps", 0);
  EXPECT_GT(relative_distance(one, run_training(job(1, unfrozen)).parameters), 1e-4);
}

TEST_F(OneBitAdam, TrainsAndContinuesBitForBit) {
  plan::Plan plan = frozen_plan(DType::Float32);
  plan.exchange.levels[0].codec = {.name = "one_bit", .dense_steps = 20, .options = {{"block", 64}}};
  const auto whole = run_training(job(3, plan));
  const auto& steps = whole.recorders[0].steps;
  EXPECT_LT(steps.back().loss, 0.9 * steps.front().loss);
  data::MemoryStorage storage;
  run_training(stopping(job(3, plan), 40, &storage));
  EXPECT_EQ(run_training(going_on(job(3, plan), &storage)).outcomes[0].parameter_hash,
            whole.outcomes[0].parameter_hash);
}

std::vector<CodedWay> all_coded() {
  std::vector<CodedWay> all;
  for (const Way& way : ways())
    for (const codec::CodecRow& row : codec::codec_table())
      if (way.carries(row)) all.push_back({std::string(row.name), way});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Codecs, TrainCoded, ::testing::ValuesIn(all_coded()),
                         [](const ::testing::TestParamInfo<CodedWay>& info) {
                           return info.param.codec + "_" + info.param.way.name;
                         });

}  // namespace
}  // namespace taxon::test
