#include "faults/performance.h"

#include "exchange/levels.h"
#include "faults/witness.h"

namespace taxon::faults {
namespace {

class Listener final : public train::Observer {
 public:
  explicit Listener(Testimony& testimony) : testimony_(testimony) {}
  void started(const train::RunInfo& info) override { testimony_.first_step = info.start_step; }
  void stepped(const train::StepReport& report) override {
    testimony_.reported = report.step;
    testimony_.rates.push_back(report.rate);
  }
  void evaluated(const train::Evaluation&) override {}
  void saved(const std::string&) override {}
  void noticed(const std::string& sentence) override { testimony_.notices.push_back(sentence); }

 private:
  Testimony& testimony_;
};

struct Own {
  Testimony* testimony;
  comm::Losses* losses;
};

task::Task<void> train_rank(const Job* job, const Staging* staging, comm::Runtime* world, Own own) {
  Testimony* testimony = own.testimony;
  std::unique_ptr<net::Transport> wrapped = job->wrap ? job->wrap(world->transport) : nullptr;
  comm::Runtime runtime{wrapped ? *wrapped : world->transport, world->device, world->journal};
  const int rank = runtime.rank().value();
  Witness model(job->make_model(staging->plan, rank), *testimony);
  Listener listener(*testimony);
  train::World parts{runtime, model, *job->datasets, *staging->storage, listener};
  train::TrainOptions options;
  options.plan = staging->plan;
  if (staging->plan.checkpoint.every_steps > 0) options.out = kRunFolder;
  options.start = staging->start;
  options.version = "simulation";
  options.acts = &testimony->acts;
  options.losses = own.losses;
  auto training = train::train(parts, std::move(options));
  testimony->outcome = co_await training;
}

}  // namespace

Performance perform(const Job& job, const Staging& staging) {
  Performance performance;
  performance.ranks.resize(static_cast<std::size_t>(staging.ranks));
  std::vector<std::unique_ptr<comm::Losses>> losses;
  sim::WorldOptions options{.seed = staging.seed, .limit = staging.limit};
  options.spared = exchange::spared_ranks(staging.plan, staging.ranks);
  for (int rank = 0; rank < staging.ranks; ++rank)
    losses.push_back(std::make_unique<comm::Losses>(options.spared));
  options.lost = [&losses](Rank hears, Rank lost, std::exception_ptr why) {
    losses[static_cast<std::size_t>(hears.value())]->lose(lost, why);
  };
  sim::World world(staging.cluster, staging.ranks, options);
  sim::RankBody body = [&](comm::Runtime& runtime) {
    auto rank = static_cast<std::size_t>(runtime.rank().value());
    return train_rank(&job, &staging, &runtime, {&performance.ranks[rank], losses[rank].get()});
  };
  performance.report = world.run(body);
  return performance;
}

}  // namespace taxon::faults
