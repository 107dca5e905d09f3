// What a program sees that is a rank of a job by its environment alone.
#include "job/job.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "base/error.h"
#include "control/job.h"
#include "job/training.h"
#include "support/process_log.h"
#include "support/processes.h"
#include "support/training.h"

namespace taxon::test {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr int kJobRanks = 3;

plan::Plan plan_over_tcp() {
  plan::Plan plan = plan::read_plan(TAXON_SOURCE_DIR "/recipes/blobs-perceptron.yaml");
  plan.transport.kind = "tcp";
  return plan;
}

/// Runs `program` as so many ranks of a launcher that speaks by plain variables.
std::vector<int> run_ranks(const std::function<int(job::Job)>& program, const ProcessLog& log) {
  const int port = control::free_port();
  return run_processes(kJobRanks, [&](Process& process) {
    setenv("RANK", std::to_string(process.index()).c_str(), 1);
    setenv("WORLD_SIZE", std::to_string(kJobRanks).c_str(), 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
    try {
      return program(job::Job::from_environment(plan_over_tcp()));
    } catch (const std::exception& error) {
      log.say(fmt::format("[{}] {}", process.index(), error.what()));
      return 1;
    }
  });
}

TEST(Job, SumsOverItsRanksAgainAndAgain) {
  TAXON_SKIP_UCX;
  const ProcessLog log;
  const auto program = [&](job::Job job) {
    std::vector<float> singles(1000, static_cast<float>(job.rank() + 1));
    std::vector<double> doubles = {1, static_cast<double>(job.rank())};
    job.all_reduce(singles);
    job.all_reduce(doubles);
    job.barrier();
    EXPECT_EQ(job.size(), kJobRanks);
    EXPECT_THAT(singles, Each(6));
    EXPECT_THAT(doubles, testing::ElementsAre(3, 3));
    return 0;  // the job is left by its destructor
  };
  EXPECT_THAT(run_ranks(program, log), Each(0)) << log.read();
}

TEST(Job, AnExceptionOfOneRanksProgramEndsTheOthers) {
  TAXON_SKIP_UCX;
  const ProcessLog log;
  const auto program = [](job::Job job) -> int {
    if (job.rank() == 1) throw std::runtime_error("of its own");
    std::vector<float> values(10);
    job.all_reduce(values);
    return 0;
  };
  EXPECT_THAT(run_ranks(program, log), Each(1));
  EXPECT_THAT(log.read(), HasSubstr("[1] of its own\n"));
  for (int rank : {0, 2})
    EXPECT_THAT(log.read(), testing::ContainsRegex(
                                fmt::format("\\[{}\\] .*rank 1 .*its program ended by an exception", rank)));
}

/// Then its clean-up takes as long as it takes: the alarm of ranks that don't unwind is off.
TEST(Job, AProgramThatCatchesTheEndOfAnotherIsLeftInPeace) {
  TAXON_SKIP_UCX;
  const ProcessLog log;
  const auto program = [](job::Job job) -> int {
    std::vector<float> values(10);
    try {
      job.barrier();  // all have joined
      if (job.rank() == 1) throw std::runtime_error("of its own");
      job.all_reduce(values);
    } catch (const Error&) {
      const unsigned left = alarm(0);  // of these tests' own, if the job had none to set
      return left == 0 || left > kProcessSeconds / 2 ? 0 : 2;
    }
    return 3;
  };
  EXPECT_THAT(run_ranks(program, log), testing::ElementsAre(0, 1, 0)) << log.read();
}

/// What only one rank can't open, the others hear of in that one's words, although its program goes on.
TEST(Job, AFailureThatTheProgramCatchesEndsTheOthers) {
  TAXON_SKIP_UCX;
  const ProcessLog log;
  const auto program = [](job::Job job) -> int {
    if (job.rank() == 1) {
      job.fail(Error(ErrorKind::Data, "no such data"));
      job.fail(Error(ErrorKind::Data, "said once"));
    }
    job.barrier();
    return 0;
  };
  EXPECT_THAT(run_ranks(program, log), Each(1));
  EXPECT_THAT(log.read(), HasSubstr("[1] the job is over\n"));
  for (int rank : {0, 2})
    EXPECT_THAT(log.read(), testing::ContainsRegex(fmt::format("\\[{}\\] .*rank 1 .*no such data", rank)));
}

TEST(Job, TrainsBesideSumsOfItsOwn) {
  TAXON_SKIP_UCX;
  const ProcessLog log;
  const auto program = [](job::Job job) {
    job::TrainingInputs inputs = job::open_training_inputs(job);
    Recorder recorder;
    const train::Outcome outcome = job::train(job, *inputs.model, inputs.datasets, recorder);
    std::vector<double> hash = {static_cast<double>(outcome.parameter_hash >> 32)};
    const double own = hash[0];
    job.all_reduce(hash);
    EXPECT_EQ(hash[0], kJobRanks * own) << "all ranks have the same weights";
    EXPECT_EQ(outcome.steps, 8);
    job.leave();
    return 0;
  };
  EXPECT_THAT(run_ranks(program, log), Each(0)) << log.read();
}

TEST(Job, ARankAloneNeedsNobody) {
  job::Job job = job::Job::from_environment();
  std::vector<float> values = {1, 2};
  job.all_reduce(values);
  job.barrier();
  EXPECT_EQ(job.size(), 1);
  EXPECT_THAT(values, testing::ElementsAre(1, 2));
}

}  // namespace
}  // namespace taxon::test
