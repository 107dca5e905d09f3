#include "job/job.h"

#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <functional>
#include <utility>

#include "base/version.h"
#include "comm/collectives.h"
#include "exchange/levels/levels.h"
#include "launch/environment.h"
#include "launch/identity.h"
#include "launch/openblas.h"

namespace taxon::job {
namespace {

// Of a data centre's network; only which algorithm is taken depends on it.
constexpr comm::LinkCost kCost{.latency = 5e-6, .bandwidth = 1e9, .reduce = 1e-10};

task::Task<void> establish(comm::Communicator* group) { co_await group->establish(); }

task::Task<void> collect(comm::Communicator* group, net::Operation operation, comm::Call call) {
  const comm::Shape shape{.size = group->size(), .bytes = call.data.size()};
  co_await comm::choose_row(operation, shape, kCost).run(*group, call);
}

std::vector<Rank> all_ranks(int size) {
  std::vector<Rank> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.emplace_back(rank);
  return ranks;
}

launch::Identity identity_of(const plan::Plan& plan, const launch::Environment& environment) {
  launch::Identification who = launch::identify(launch::with_address(plan, environment));
  if (!who.problems.empty()) throw Error(ErrorKind::Usage, fmt::format("{}", fmt::join(who.problems, "\n")));
  return who.identity;
}

ProcessOptions process_options(const plan::Plan& plan, const JobOptions& options) {
  exchange::require_whole(options.own);
  const launch::Environment environment = launch::process_environment();
  ProcessOptions process;
  process.identity = identity_of(plan, environment);
  process.secret = launch::find_secret(plan, environment);
  process.version = version_number();
  process.stop = options.stop;
  process.say = options.say ? options.say : [](const std::string&) {};
  process.expendable = exchange::expendable_ranks(plan, process.identity.world_size, options.own);
  process.note = launch::Note::of(environment);
  return process;
}

}  // namespace

struct Job::Core {
  Core(const plan::Plan& the_plan, JobOptions the_options, ProcessOptions of_process)
      : plan(the_plan),
        options(std::move(the_options)),
        identity(of_process.identity),
        process(plan, std::move(of_process)),
        world(process.runtime(), "job", all_ranks(identity.world_size)) {}

  const plan::Plan plan;
  const JobOptions options;
  const launch::Identity identity;
  Process process;
  comm::Communicator world;
  const int exceptions = std::uncaught_exceptions();  // that unwound the stack when the job was joined
  std::atomic<bool> over = false, runs = false;
  std::function<void(const Error&)> borrower;  // of the job, for a run on a thread of its own
};

Job::Job(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Job::Job(Job&& other) noexcept = default;

Job Job::from_environment(const plan::Plan& plan, JobOptions options) {
  ProcessOptions process = process_options(plan, options);
  Job job(std::make_unique<Core>(plan, std::move(options), std::move(process)));
  job.run(establish(&job.world()));
  // Of a program of its own; Taxon's has begun with them.
  const std::string_view kernels = launch::better_openblas_kernels();
  if (!kernels.empty() && job.options().say)
    job.options().say(
        fmt::format("OpenBLAS multiplies with {}'s kernels, which are older than this processor: "
                    "export {}={}, or begin with choose_openblas_kernels()",
                    launch::openblas_kernels(), launch::kOpenBlasCore, kernels));
  return job;
}

Job::~Job() {
  if (!core_ || core_->over) return;
  try {
    if (std::uncaught_exceptions() > core_->exceptions)
      fail(Error(ErrorKind::Internal, "its program ended by an exception"));
    else
      leave();
  } catch (const std::exception& error) {
    if (core_->options.say) core_->options.say(error.what());
  }
}

int Job::rank() const { return core_->identity.rank; }
int Job::size() const { return core_->identity.world_size; }
const plan::Plan& Job::plan() const { return core_->plan; }
const JobOptions& Job::options() const { return core_->options; }
const launch::Identity& Job::identity() const { return core_->identity; }
comm::Communicator& Job::world() { return core_->world; }
Process& Job::process() { return core_->process; }

void Job::all_reduce(std::span<float> values) {
  run(collect(&core_->world, net::Operation::AllReduce, {as_view(values), DType::Float32}));
}

void Job::all_reduce(std::span<double> values) {
  run(collect(&core_->world, net::Operation::AllReduce, {as_view(values), DType::Float64}));
}

void Job::barrier() { run(collect(&core_->world, net::Operation::Barrier, {})); }

void Job::run(task::Task<void> task) {
  if (core_->over)
    throw Error(ErrorKind::Usage, core_->runs
                                      ? "a training loop of the program's runs on the job: until it is "
                                        "over nothing else can be done with it"
                                      : "the job is over");
  struct Running {
    explicit Running(std::atomic<bool>& flag) : runs(flag) { runs = true; }
    ~Running() { runs = false; }
    std::atomic<bool>& runs;
  } running(core_->runs);
  core_->over = true;  // unless all goes well
  core_->process.run(std::move(task));
  core_->over = false;
}

void Job::lend(std::function<void(const Error&)> fail) { core_->borrower = std::move(fail); }

void Job::fail(const Error& error) {
  if (!core_->over.exchange(true)) return core_->process.abandon(error);
  if (core_->runs && core_->borrower) core_->borrower(error);
}

void Job::leave() {
  barrier();  // nobody takes memory away that others still read
  core_->over = true;
  core_->process.leave();
}

}  // namespace taxon::job
