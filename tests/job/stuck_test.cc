// What real ranks say when one of them stops or disagrees: the program's own process over UCX and the control
// network, each rank a process.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <regex>
#include <thread>

#include "comm/collectives.h"
#include "control/job.h"
#include "data/memory_storage.h"
#include "job/process.h"
#include "support/passing_transport.h"
#include "support/process_log.h"
#include "support/processes.h"
#include "support/training.h"

namespace taxon::test {
namespace {

using std::chrono::steady_clock;
using testing::ContainsRegex;
using testing::HasSubstr;

constexpr int kStuckRanks = 4, kOdd = 2;
constexpr std::chrono::seconds kHangLimit{60};

/// Stops its process in the middle of a bucket: before the second message that it sends for bucket 1 of the
/// fourth step.
class Stopping final : public PassingTransport {
 public:
  using PassingTransport::PassingTransport;
  using PassingTransport::start;
  void start(net::SendOp& op) override {
    const net::Tag& tag = op.tag;
    if (tag.operation == net::Operation::AllReduce && tag.unit == 1 && tag.sequence == 3 && ++sent_ == 2)
      raise(SIGSTOP);
    inner_.start(op);
  }

 private:
  int sent_ = 0;
};

plan::Plan job_plan() {
  plan::Plan plan = plan::read_plan(TAXON_SOURCE_DIR "/recipes/blobs-perceptron.yaml");
  plan.exchange.bucket_bytes = 300;
  plan.exchange.levels[0].collective = "ring";
  plan.transport.kind = "tcp";
  return plan;
}

job::ProcessOptions options_of(int rank, int port, const ProcessLog& log, const std::atomic<bool>& stop) {
  job::ProcessOptions options;
  options.identity.rank = options.identity.local_rank = rank;
  options.identity.world_size = options.identity.local_world_size = kStuckRanks;
  options.identity.master_port = port;
  options.version = "test";
  options.stop = &stop;
  options.say = [&log, rank](const std::string& line) { log.say(fmt::format("[{}] {}", rank, line)); };
  return options;
}

task::Task<void> train_here(const plan::Plan* plan, comm::Runtime* doors, const data::Datasets* datasets,
                            std::uint64_t* hash) {
  std::unique_ptr<net::Transport> odd;
  if (doors->rank() == Rank(kOdd)) odd = std::make_unique<Stopping>(doors->transport);
  comm::Runtime runtime{odd ? *odd : doors->transport, doors->device, doors->recorder};
  auto model = model::make_model({.plan = &plan->model, .shape = datasets->train->shape(), .seed = 1});
  Recorder recorder;
  data::MemoryStorage storage;
  train::TrainContext world{runtime, *model, *datasets, storage, recorder};
  train::TrainOptions options;
  options.plan = *plan;
  auto training = train::train(world, std::move(options));
  train::Outcome outcome = co_await training;
  *hash = outcome.parameter_hash;
}

/// The hash of the trained parameters.
std::uint64_t run_rank(int rank, int port, const ProcessLog& log) {
  const std::atomic<bool> stop{false};
  const plan::Plan plan = job_plan();
  const data::Datasets datasets = data::open_datasets(plan.data, data::MemoryStorage());
  std::uint64_t hash = 0;
  job::Process process(plan, options_of(rank, port, log, stop));
  process.run(train_here(&plan, &process.runtime(), &datasets, &hash));
  process.leave();
  return hash;
}

/// What it should be: the same job without a stop, in this process.
std::uint64_t loopback_hash() {
  TrainingJob job;
  job.ranks = kStuckRanks;
  job.plan = job_plan();
  const data::Datasets datasets = data::open_datasets(job.plan.data, data::MemoryStorage());
  job.datasets = &datasets;
  job.share_memory = false;
  job.make_model = [&](int) {
    return model::make_model({.plan = &job.plan.model, .shape = datasets.train->shape(), .seed = 1});
  };
  return run_training(job).outcomes[0].parameter_hash;
}

bool is_stopped(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string stat((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.substr(name_end + 2, 1) == "T";
}

template <class Condition>
bool wait_for(Condition condition, std::chrono::seconds limit) {
  const auto end = steady_clock::now() + limit;
  while (!condition()) {
    if (steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

/// PendingOps until `pid` has stopped itself, then for the line that says so; then lets it go on.
void supervise(pid_t pid, const ProcessLog& log) {
  ASSERT_TRUE(wait_for([&] { return is_stopped(pid); }, kHangLimit));
  const std::regex line(
      "rank [0-9] waits for rank 2 in all_reduce, bucket 1 \\([a-z.]+(, [a-z.]+)*\\) by all_reduce ring, "
      "step 4, round");
  const bool said = wait_for([&] { return std::regex_search(log.read(), line); }, kHangLimit);
  kill(pid, SIGCONT);
  EXPECT_TRUE(said) << log.read();
  EXPECT_THAT(log.read(), HasSubstr("rank 2 holds up the others"));
}

TEST(Stuck, ARankStoppedInTheMiddleOfABucketIsNamedWithItAndTheRunGoesOn) {
  TAXON_SKIP_UCX;
  const ProcessLog log;
  const int port = control::free_port();
  const auto codes = run_processes(kStuckRanks + 1, [&](Process& process) {
    const pid_t own = getpid();
    const auto pids = process.exchange(
        Bytes(reinterpret_cast<const std::byte*>(&own), reinterpret_cast<const std::byte*>(&own + 1)));
    if (process.index() == kStuckRanks) {
      pid_t odd;
      std::memcpy(&odd, pids[kOdd].data(), sizeof odd);
      supervise(odd, log);
      return 0;
    }
    const std::uint64_t hash = run_rank(process.index(), port, log);
    log.say(fmt::format("[{}] hash {:016x}", process.index(), hash));
    return 0;
  });
  EXPECT_THAT(codes, testing::Each(0)) << log.read();
  const std::uint64_t right = loopback_hash();
  for (int rank = 0; rank < kStuckRanks; ++rank)
    EXPECT_THAT(log.read(), HasSubstr(fmt::format("[{}] hash {:016x}", rank, right)));
}

/// Three buckets are summed; in the second, the odd rank comes with half of it.
task::Task<void> sum_buckets(comm::Runtime* runtime) {
  runtime->pending().name_units([](std::int64_t unit, std::int64_t use) {
    return fmt::format("bucket {} (layer{}.weight), step {}", unit, unit, use + 1);
  });
  std::vector<Rank> all;
  for (int rank = 0; rank < kStuckRanks; ++rank) all.emplace_back(rank);
  comm::Communicator group(*runtime, "data", all);
  auto establish = group.establish();
  co_await establish;
  const auto& row = comm::find_row(net::Operation::AllReduce, "ring");
  std::vector<float> data(1000, 1.0f);
  for (std::uint32_t unit = 0; unit < 3; ++unit) {
    const bool odd = unit == 1 && runtime->rank() == Rank(kOdd);
    comm::Call call{as_view(std::span(data).first(odd ? 500 : 1000)), DType::Float32, unit};
    auto sum = row.run(group, call);
    co_await sum;
  }
}

TEST(Stuck, ARankWithAnotherBucketSizeIsNamedAtOnce) {
  TAXON_SKIP_UCX;
  const ProcessLog log;
  const int port = control::free_port();
  const auto codes = run_processes(kStuckRanks, [&](Process& process) {
    const std::atomic<bool> stop{false};
    const plan::Plan plan = job_plan();
    job::Process real(plan, options_of(process.index(), port, log, stop));
    try {
      real.run(sum_buckets(&real.runtime()));
      real.leave();
    } catch (const Error& error) {
      log.say(fmt::format("[{}] {}", process.index(), error.what()));
      return exit_code(error.kind());
    }
    return 0;
  });
  EXPECT_THAT(codes, testing::Each(exit_code(ErrorKind::Mismatch))) << log.read();
  EXPECT_THAT(log.read(),
              ContainsRegex("Ranks disagree in all_reduce, bucket 1 .layer1.weight., step 1, round "
                            "[0-9]+: rank [0-9].* rank [0-9]"));
  EXPECT_THAT(log.read(), HasSubstr("rank 2 "));
  // Not after a deadline: nobody had to find out by waiting.
  EXPECT_THAT(log.read(), testing::Not(HasSubstr("holds up the others")));
}

}  // namespace
}  // namespace taxon::test
