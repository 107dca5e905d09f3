// What a run goes on from, and what it refuses to go on from.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/forged.h"
#include "checkpoint/safetensors.h"
#include "data/memory_storage.h"
#include "train/modes.h"
#include "train/toy_job.h"

namespace taxon::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Resume : public Train {
 protected:
  Resume() {
    plan_ = toy_plan();
    plan_.length.steps = 24;
    plan_.checkpoint.every_steps = 8;
    plan_.checkpoint.keep = 9;
    whole_ = run_training(first());
  }
  TrainingJob first() {
    TrainingJob job = this->job(2, plan_);
    job.storage = &storage_;
    job.out = "run";
    return job;
  }
  TrainingJob rest() {
    TrainingJob job = first();
    job.start = train::TrainOptions::Start::Resume;
    return job;
  }
  static std::string path(int step) { return fmt::format("run/checkpoints/step-{:08}", step); }
  static Error error_of(const TrainingJob& job) {
    try {
      run_training(job);
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "the run ended well";
    return {ErrorKind::Internal, ""};
  }
  void rewrite(const std::string& file,
               const std::function<void(std::vector<checkpoint::LogicalTensor>&)>& change) {
    auto tensors = checkpoint::read_safetensors(storage_, path(24) + "/" + file);
    change(tensors);
    checkpoint::write_safetensors(storage_, path(24) + "/" + file, tensors);
    checkpoint::vouch_for_all(storage_, path(24));
  }
  void write(const std::string& file, const std::string& text) {
    storage_.write_atomic(path(24) + "/" + file, as_const_view(std::span<const char>(text)));
    checkpoint::vouch_for_all(storage_, path(24));
  }

  plan::Plan plan_;
  data::MemoryStorage storage_;
  TrainingResult whole_;
};

TEST_F(Resume, IsFromTheStepThatIsAskedFor) {
  TrainingJob job = rest();
  job.resume_step = 8;
  const auto result = run_training(job);
  EXPECT_EQ(result.recorders[0].info.start_step, 8);
  EXPECT_EQ(result.outcomes[0].parameter_hash, whole_.outcomes[0].parameter_hash);
  job.resume_step = 9;
  EXPECT_EQ(error_of(job).kind(), ErrorKind::Checkpoint);
}

TEST_F(Resume, PassesOverWhatIsDamagedAndSaysSo) {
  storage_.remove(path(24) + "/optimiser.safetensors");
  const auto result = run_training(rest());
  EXPECT_EQ(result.recorders[0].info.start_step, 16);
  EXPECT_EQ(result.outcomes[0].parameter_hash, whole_.outcomes[0].parameter_hash);
  EXPECT_THAT(result.recorders[0].notices,
              testing::Contains(HasSubstr("step-00000024/optimiser.safetensors")));
  EXPECT_THAT(result.recorders[0].notices,
              testing::Contains(HasSubstr("resumed from run/checkpoints/step-00000016")));
}

TEST_F(Resume, OnAnotherNumberOfSamplesIsRefusedUnlessTold) {
  const std::string plan = path(8) + "/plan.yaml";
  const std::vector<std::byte> bytes = storage_.read(plan);
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string samples = fmt::format("train_samples: {}", whole_.recorders[0].info.train_size);
  const auto found = text.find(samples);
  ASSERT_NE(found, std::string::npos) << text;
  text.replace(found, samples.size(), "train_samples: 999");
  storage_.write_atomic(plan, as_const_view(std::span<const char>(text)));
  checkpoint::vouch_for_all(storage_, path(8));
  TrainingJob job = rest();
  job.resume_step = 8;
  const Error error = error_of(job);
  EXPECT_EQ(error.kind(), ErrorKind::Usage);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("was trained on 999 samples"), HasSubstr("--set data.path=")));
  job.assignments = {"data.check=all"};
  EXPECT_EQ(error_of(job).kind(), ErrorKind::Usage);
  job.assignments = {"data.path=elsewhere"};
  run_training(job);
}

TEST_F(Resume, WithAnotherSeedBatchRateOrModelIsRefusedUnlessToldExactlyThat) {
  struct Change {
    const char* assignment;
    std::function<void(plan::Plan&)> apply;
  };
  const Change changes[] = {
      {"seed=7", [](plan::Plan& plan) { plan.seed = 7; }},
      {"batch.global=24", [](plan::Plan& plan) { plan.batch.global = 24; }},
      {"learning_rate.base=0.5", [](plan::Plan& plan) { plan.learning_rate.base = 0.5; }},
      {"optimiser.momentum=0.5", [](plan::Plan& plan) { plan.optimiser.momentum = 0.5; }},
      {"length.steps=48", [](plan::Plan& plan) { plan.length.steps = 48; }},
      {"learning_rate.schedule=constant",  // whose keys are others
       [](plan::Plan& plan) { plan.learning_rate.schedule = "constant"; }},
      {"model.name=mlp", [](plan::Plan& plan) { plan.model.name = "mlp"; }},
  };
  for (const Change& change : changes) {
    SCOPED_TRACE(change.assignment);
    TrainingJob job = rest();
    job.resume_step = 8;
    change.apply(job.plan);
    const Error error = error_of(job);
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("step-00000008"), HasSubstr(std::string("--set ") + change.assignment)));
    job.assignments = {"report.trace=false"};
    EXPECT_EQ(error_of(job).kind(), ErrorKind::Usage);
    job.assignments = {change.assignment};
    job.out = "run";
    const auto result = run_training(job);
    EXPECT_THAT(result.recorders[0].notices, testing::Contains(HasSubstr("as told, otherwise than before")));
  }
}

TEST_F(Resume, OnOtherRanksStepsOfOtherBatchesAreAsMany) {
  plan_.batch = {.per_worker = 6};
  data::MemoryStorage storage;
  TrainingJob first = stopping(job(2, plan_), 8, &storage);
  run_training(first);
  TrainingJob more = going_on(job(4, plan_), &storage);
  const auto result = run_training(more);
  EXPECT_EQ(result.outcomes[0].steps, 24);
  EXPECT_EQ(result.outcomes[0].end, train::Outcome::End::Complete);
}

/// Replicas that were equal begin to train apart, at servers too, and those that trained apart become equal.
TEST_F(Resume, MayChangeWhetherReplicasAreEqual) {
  plan::Plan apart = plan_, at_servers = plan_;
  apart.exchange.levels = {level("data", "all_reduce")};
  apart.exchange.levels[0].rule = "average";
  apart.exchange.levels[0].period = 4;
  at_servers.exchange.levels = {asynchronous()};
  at_servers.optimiser.rule = "sgd";  // whose state at a server nobody else has
  plan::Plan equal = at_servers;
  equal.exchange.levels = {level("data", "all_reduce")};
  const std::pair<plan::Plan, plan::Plan> changes[] = {
      {plan_, apart}, {apart, plan_}, {equal, at_servers}, {at_servers, equal}};
  for (const auto& [before, after] : changes) {
    SCOPED_TRACE(before.exchange.levels[0].topology + ", then " + after.exchange.levels[0].topology);
    data::MemoryStorage storage;
    TrainingJob first = stopping(job(4, before), 12, &storage);
    const double reached = run_training(first).recorders[0].steps.back().loss;
    const auto result = run_training(going_on(job(4, after), &storage));
    EXPECT_EQ(result.outcomes[0].end, train::Outcome::End::Complete);
    EXPECT_GE(result.recorders[0].info.start_step, 12);
    const bool takes_over = exchange::replicas_are_equal(before.exchange.levels) &&
                            !exchange::served_level(after.exchange.levels);
    const std::int64_t begun = takes_over ? 0 : result.recorders[0].info.start_step;
    EXPECT_EQ(result.recorders[0].info.plan.resolved.optimiser_begun, begun);
    EXPECT_EQ(run_training(going_on(job(4, after), &storage)).recorders[0].info.plan.resolved.optimiser_begun,
              begun);
    EXPECT_LT(result.recorders[0].steps.front().loss, 1.5 * reached);
    EXPECT_EQ(result.outcomes[3].parameter_hash, result.outcomes[0].parameter_hash);
  }
}

/// The perceptron's buffer counts a rank's samples.
TEST_F(Resume, OtherRanksGoOnWithTheMeanOfTheBuffers) {
  data::MemoryStorage storage;
  TrainingJob first = stopping(job(4, plan_), 8, &storage);
  const auto before = static_cast<double>(run_training(first).outcomes[0].samples);
  TrainingJob fewer = going_on(job(2, plan_), &storage);
  const auto all = static_cast<double>(run_training(fewer).outcomes[0].samples);
  for (const auto& tensor : checkpoint::read_safetensors(storage, "run/model.safetensors"))
    if (tensor.name == "seen") {
      const auto seen = as_span<float>(ConstView(tensor.bytes.data(), tensor.bytes.size()));
      EXPECT_FLOAT_EQ(seen[0], static_cast<float>(before / 4 + (all - before) / 2));
      return;
    }
  FAIL() << "no buffer in the file";
}

TEST_F(Resume, OfAFinishedRunHasNoLoss) {
  EXPECT_TRUE(std::isnan(run_training(rest()).outcomes[0].train_loss));
}

TEST_F(Resume, MayReportAndSaveOtherwise) {
  TrainingJob job = rest();
  job.plan.data.threads = 3;
  job.plan.report.metrics_steps = 3;
  job.plan.checkpoint.keep = 2;
  job.plan.evaluation.every_epochs = 3;
  EXPECT_EQ(run_training(job).outcomes[0].parameter_hash, whole_.outcomes[0].parameter_hash);
}

TEST_F(Resume, FromARanksStateThatIsNoneIsRefused) {
  struct Garbage {
    const char* what;
    std::function<void(std::vector<checkpoint::LogicalTensor>&)> change;
  };
  auto state = [](std::vector<checkpoint::LogicalTensor>& tensors) -> checkpoint::LogicalTensor& {
    for (auto& tensor : tensors)
      if (tensor.name == "state") return tensor;
    throw std::logic_error("no state");
  };
  auto resize = [](checkpoint::LogicalTensor& tensor, std::size_t size) {
    tensor.bytes.resize(size);
    tensor.shape = {static_cast<std::int64_t>(size)};
  };
  const Garbage all[] = {
      {"none", [](auto& tensors) { tensors.clear(); }},
      {"empty", [&](auto& tensors) { resize(state(tensors), 0); }},
      {"cut", [&](auto& tensors) { resize(state(tensors), 11); }},
      {"long", [&](auto& tensors) { resize(state(tensors), 7); }},
      {"huge", [&](auto& tensors) { std::fill_n(state(tensors).bytes.begin(), 8, std::byte{0x7f}); }},
      {"negative", [&](auto& tensors) { std::fill_n(state(tensors).bytes.begin(), 8, std::byte{0xff}); }},
  };
  const auto before = storage_.read(path(24) + "/rank-00001.safetensors");
  for (const Garbage& garbage : all) {
    SCOPED_TRACE(garbage.what);
    rewrite("rank-00001.safetensors", garbage.change);
    const Error error = error_of(rest());
    EXPECT_EQ(error.kind(), ErrorKind::Checkpoint);
    EXPECT_THAT(error.what(), HasSubstr("rank-00001.safetensors"));
    storage_.write_atomic(path(24) + "/rank-00001.safetensors", ConstView(before.data(), before.size()));
    checkpoint::vouch_for_all(storage_, path(24));
  }
}

TEST_F(Resume, FromADamagedPlanIsRefused) {
  const auto bytes = storage_.read(path(24) + "/plan.yaml");
  const std::string good(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<std::string> bad = {
      "", "[1", "seed: [", "nonsense: 1\n", std::string(1000, '\0'), std::string(5000, '[')};
  bad.push_back(good.substr(0, good.find("resolved:")));
  std::string renamed = good;
  renamed.replace(renamed.find("hidden.weight"), 6, "hiddEn");
  bad.push_back(renamed);
  for (const std::string& text : bad) {
    SCOPED_TRACE(text.substr(0, 40));
    write("plan.yaml", text);
    const Error error = error_of(rest());
    EXPECT_EQ(error.kind(), ErrorKind::Checkpoint) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("plan.yaml"));
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
}

TEST_F(Resume, FromWeightsOfAnIntegerTypeIsRefused) {
  rewrite("model.safetensors", [](auto& tensors) { tensors[0].type = DType::Int64; });
  EXPECT_EQ(error_of(rest()).kind(), ErrorKind::Checkpoint);
}

/// Whatever is in files that the manifest vouches for: the run goes on, or ends with one of the errors that a
/// user can do something about.
class ForgedResume : public Resume, public testing::WithParamInterface<int> {};

TEST_P(ForgedResume, EndsInWordsOrGoesOn) {
  std::map<std::string, std::vector<std::byte>> whole;
  for (const std::string& name : storage_.list(path(24))) whole[name] = storage_.read(path(24) + "/" + name);
  Rng rng(static_cast<std::uint64_t>(GetParam()), "forged");
  for (int trial = 0; trial < 60; ++trial) {
    for (const auto& [name, bytes] : whole)
      storage_.write_atomic(path(24) + "/" + name, ConstView(bytes.data(), bytes.size()));
    auto file = whole.begin();
    std::advance(file, rng.below(whole.size()));
    auto bytes = file->second;
    const std::string how = checkpoint::damage(bytes, rng);
    SCOPED_TRACE(testing::Message() << file->first << ": " << how);
    storage_.write_atomic(path(24) + "/" + file->first, ConstView(bytes.data(), bytes.size()));
    if (rng.below(4) > 0) checkpoint::vouch_for_all(storage_, path(24));
    TrainingJob job = rest();
    job.resume_step = 24;
    job.out = "run";
    try {
      run_training(job);
    } catch (const Error& error) {
      // Usage: another seed or rate than the plan's. Diverged: weights of some other size.
      EXPECT_THAT(error.kind(), testing::AnyOf(ErrorKind::Checkpoint, ErrorKind::Usage, ErrorKind::Diverged))
          << error.what();
    }
    for (const std::string& name : storage_.list("run/checkpoints"))
      if (name.starts_with("step-00000024-")) storage_.remove("run/checkpoints/" + name);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ForgedResume, testing::Range(0, 4));

}  // namespace
}  // namespace taxon::test
