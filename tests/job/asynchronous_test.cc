// Asynchronous workers as real processes: what happens when one dies, and how a run is repeated in its order.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "control/job.h"
#include "data/memory_storage.h"
#include "exchange/levels/levels.h"
#include "job/process.h"
#include "support/process_log.h"
#include "support/processes.h"
#include "support/training.h"

namespace taxon::test {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr int kRanks = 5, kVictim = 2;
const char* const kLastWords = "the victim dies";

plan::Plan job_plan(const char* transport) {
  return plan::override_plan(
      plan::read_plan(TAXON_SOURCE_DIR "/recipes/blobs-perceptron.yaml"),
      {"exchange.levels=[{topology: servers, staleness: -1, apply: 1}]", "mesh.servers=1",
       "optimiser.rule=sgd", "length.steps=60", "evaluation.every_epochs=0", "exchange.bucket_bytes=300",
       fmt::format("transport.kind={}", transport)});
}

struct Scene {
  plan::Plan plan;
  int victim = -1;
  std::int64_t dies_at = 10;          // step
  bool others_dawdle = false;         // until the victim's death
  const ProcessLog* order = nullptr;  // gets the run's
  const train::ReplayLog* follow = nullptr;
};

std::unique_ptr<model::Model> make_model(const plan::Plan& plan, const data::Datasets& datasets) {
  return model::make_model({.plan = &plan.model, .shape = datasets.train->shape(), .seed = 1});
}

task::Task<void> train_here(const Scene* run, job::Process* process, const ProcessLog* log,
                            train::Outcome* outcome) {
  const data::Datasets datasets = data::open_datasets(run->plan.data, data::MemoryStorage());
  auto model = make_model(run->plan, datasets);
  const int rank = process->runtime().rank().value();
  Recorder recorder;
  if (rank == run->victim)
    recorder.on_step = [run, log](const train::StepReport& report) {
      if (report.step != run->dies_at) return;
      log->say(kLastWords);
      raise(SIGKILL);
    };
  else if (run->others_dawdle)
    recorder.on_step = [log](const train::StepReport&) {
      if (log->read().find(kLastWords) == std::string::npos)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    };
  data::MemoryStorage storage;
  train::TrainContext world{process->runtime(), *model, datasets, storage, recorder};
  train::TrainOptions options;
  options.plan = run->plan;
  options.failures = &process->failures();
  options.record_order = run->order != nullptr;
  options.follow = run->follow;
  auto training = train::train(world, std::move(options));
  *outcome = co_await training;
  for (const std::string& notice : recorder.notices) log->say(fmt::format("[{}] notice: {}", rank, notice));
}

/// Exit codes of all ranks; what they end with is in the log.
std::vector<int> run_ranks_as_processes(const Scene& run, const ProcessLog& log) {
  const int port = control::free_port();
  return run_processes(kRanks, [&](Process& process) {
    const std::atomic<bool> stop{false};
    job::ProcessOptions options;
    options.identity.rank = options.identity.local_rank = process.index();
    options.identity.world_size = options.identity.local_world_size = kRanks;
    options.identity.master_port = port;
    options.version = "test";
    options.stop = &stop;
    options.say = [](const std::string&) {};
    if (!run.follow) options.expendable = exchange::expendable_ranks(run.plan, kRanks);
    train::Outcome outcome;
    try {
      job::Process real(run.plan, std::move(options));
      real.run(train_here(&run, &real, &log, &outcome));
      real.leave();
    } catch (const Error& error) {
      log.say(fmt::format("[{}] error: {}", process.index(), error.what()));
      return exit_code(error.kind());
    }
    if (outcome.order) {
      std::string text = train::to_text(*outcome.order);
      text.pop_back();
      run.order->say(text);
    }
    std::vector<int> lost;
    for (Rank rank : outcome.lost) lost.push_back(rank.value());
    log.say(fmt::format("[{}] hash {:016x}, loss {}, lost [{}], {} samples", process.index(),
                        outcome.parameter_hash, outcome.test.loss, fmt::join(lost, ","), outcome.samples));
    return 0;
  });
}

/// "hash ..., loss ..." of a rank.
std::string result_of(int rank, const std::string& log) {
  const std::string begin = fmt::format("[{}] hash ", rank);
  const std::size_t at = log.find(begin);
  if (at == std::string::npos) return "";
  const std::size_t from = at + begin.size();
  return log.substr(from, log.find(", lost", from) - from);
}

class Asynchronous : public testing::TestWithParam<const char*> {};

TEST_P(Asynchronous, AKilledWorkerLeavesTheOthersTraining) {
  TAXON_SKIP_UCX;
  const ProcessLog log;
  // The others leave it the machine until then, and have steps left to train on without it.
  Scene run{.plan = job_plan(GetParam()), .victim = kVictim, .dies_at = 40, .others_dawdle = true};
  run.plan = plan::override_plan(run.plan, {"length.steps=600"});
  const auto codes = run_ranks_as_processes(run, log);
  const std::string said = log.read();
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(codes[static_cast<std::size_t>(rank)], rank == kVictim ? 128 + SIGKILL : 0) << said;
  for (int rank : {0, 1, 3, 4}) {
    EXPECT_EQ(result_of(rank, said), result_of(0, said)) << said;
    EXPECT_THAT(said, HasSubstr(fmt::format("[{}] hash", rank)));
  }
  EXPECT_THAT(said, HasSubstr("lost [2]"));
  EXPECT_THAT(said, testing::ContainsRegex("\\[0\\] notice: rank 2 was lost: .* 3 workers go on"));
  EXPECT_EQ(said.find("notice: rank 2"), said.rfind("notice: rank 2")) << said;
}

TEST_P(Asynchronous, AKilledServerEndsTheRunAndIsNamed) {
  TAXON_SKIP_UCX;
  const ProcessLog log;
  Scene run{.plan = job_plan(GetParam())};
  run.plan = plan::override_plan(run.plan, {"exchange.levels=[{topology: servers}]", "mesh.servers=0"});
  run.victim = kVictim;  // who serves, too
  const auto codes = run_ranks_as_processes(run, log);
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(codes[static_cast<std::size_t>(rank)],
              rank == kVictim ? 128 + SIGKILL : exit_code(ErrorKind::PeerLost))
        << log.read();
  EXPECT_THAT(log.read(), HasSubstr("[0] error: rank 2 was lost"));
}

/// Real ranks' order of things is followed by real ranks over another transport, and in one process.
TEST_P(Asynchronous, ARunIsRepeatedBitForBitInItsOrder) {
  TAXON_SKIP_UCX;
  for (const char* levels :
       {"[{topology: servers, staleness: -1, apply: 1}]",
        "[{topology: servers, staleness: 0, quorum: 2, apply: 2}]",
        "[{topology: servers, staleness: -1, apply: 1, rule: elastic, rate: 0.9, period: 2}]",
        "[{topology: pairs, rule: average, period: 2}]"}) {
    SCOPED_TRACE(levels);
    const bool pairs = std::string_view(levels).find("pairs") != std::string_view::npos;
    const ProcessLog log, order;
    Scene run{.plan = job_plan(GetParam()), .order = &order};
    run.plan = plan::override_plan(
        run.plan, {fmt::format("exchange.levels={}", levels), fmt::format("mesh.servers={}", pairs ? 0 : 1)});
    EXPECT_THAT(run_ranks_as_processes(run, log), Each(0)) << log.read();
    const std::string recorded = result_of(0, log.read());
    ASSERT_NE(recorded, "") << log.read();
    const train::ReplayLog read = train::parse_order(order.read(), "order");
    Scene again{.plan = plan::override_plan(run.plan, {"transport.kind=auto"}), .follow = &read};
    EXPECT_TRUE(train::problems_of_following(again.plan, kRanks, read, "order").empty());
    const ProcessLog second;
    EXPECT_THAT(run_ranks_as_processes(again, second), Each(0)) << second.read();
    EXPECT_EQ(result_of(0, second.read()), recorded);
    const data::Datasets datasets = data::open_datasets(again.plan.data, data::MemoryStorage());
    TrainingJob job;
    job.ranks = kRanks;
    job.plan = again.plan;
    job.share_memory = false;
    job.datasets = &datasets;
    job.make_model = [&](int) { return make_model(again.plan, datasets); };
    job.follow = &read;
    const train::Outcome outcome = run_training(job).outcomes[0];
    EXPECT_EQ(fmt::format("{:016x}, loss {}", outcome.parameter_hash, outcome.test.loss), recorded);
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, Asynchronous, testing::Values("auto", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace taxon::test
