#include "faults/simulated_run.h"

#include "exchange/levels/levels.h"
#include "faults/model_probe.h"

namespace taxon::faults {
namespace {

class Listener final : public train::Observer {
 public:
  explicit Listener(Observations& observations) : observations_(observations) {}
  void started(const train::RunInfo& info) override { observations_.first_step = info.start_step; }
  void stepped(const train::StepReport& report) override {
    observations_.reported = report.step;
    observations_.rates.push_back(report.rate);
  }
  void evaluated(const train::Evaluation&) override {}
  void saved(const std::string&) override {}
  void noticed(const std::string& sentence) override { observations_.notices.push_back(sentence); }

 private:
  Observations& observations_;
};

struct Own {
  Observations* observations;
  comm::FailureMonitor* failures;
};

task::Task<void> train_rank(const Job* job, const RunSetup* setup, comm::Runtime* world, Own own) {
  Observations* observations = own.observations;
  std::unique_ptr<net::Transport> wrapped = job->wrap ? job->wrap(world->transport) : nullptr;
  comm::Runtime runtime{wrapped ? *wrapped : world->transport, world->device, world->recorder};
  const int rank = runtime.rank().value();
  ModelProbe model(job->make_model(setup->plan, rank), *observations);
  Listener listener(*observations);
  train::TrainContext parts{runtime, model, *job->datasets, *setup->storage, listener};
  train::TrainOptions options;
  options.plan = setup->plan;
  if (setup->plan.checkpoint.every_steps > 0) options.out = kRunFolder;
  options.start = setup->start;
  options.version = "simulation";
  options.events = &observations->events;
  options.failures = own.failures;
  auto training = train::train(parts, std::move(options));
  observations->outcome = co_await training;
}

}  // namespace

SimulatedRun perform(const Job& job, const RunSetup& setup) {
  SimulatedRun run;
  run.ranks.resize(static_cast<std::size_t>(setup.ranks));
  std::vector<std::unique_ptr<comm::FailureMonitor>> failures;
  sim::WorldOptions options{.seed = setup.seed, .limit = setup.limit};
  options.expendable = exchange::expendable_ranks(setup.plan, setup.ranks);
  for (int rank = 0; rank < setup.ranks; ++rank)
    failures.push_back(std::make_unique<comm::FailureMonitor>(options.expendable));
  options.lost = [&failures](Rank hears, Rank lost, std::exception_ptr why) {
    failures[static_cast<std::size_t>(hears.value())]->report_lost(lost, why);
  };
  sim::World world(setup.cluster, setup.ranks, options);
  sim::RankBody body = [&](comm::Runtime& runtime) {
    auto rank = static_cast<std::size_t>(runtime.rank().value());
    return train_rank(&job, &setup, &runtime, {&run.ranks[rank], failures[rank].get()});
  };
  run.report = world.run(body);
  return run;
}

}  // namespace taxon::faults
