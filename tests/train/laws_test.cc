// What disciplines promise of each other, in every world that ranks run in: inside one process, in the
// virtual world, and as processes over UCX.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "exchange/levels/topology.h"
#include "support/process_log.h"
#include "support/process_ranks.h"
#include "train/modes.h"
#include "train/replay/replay_log.h"
#include "train/sync/agreement.h"
#include "train/toy_job.h"
#include "train/virtual_run.h"

namespace taxon::test {
namespace {

/// What rank 0 ends with.
struct Trained {
  std::vector<double> parameters;
  double bytes = 0;    // sent by a rank in a step
  double weights = 0;  // bytes of all buckets
  std::string order;   // as text, if it was recorded
};

Trained trained(const TrainingResult& result) {
  Trained trained{result.parameters, result.outcomes[0].bytes_sent_per_step, 0, ""};
  for (const auto& bucket : result.recorders[0].info.plan.resolved.buckets)
    trained.weights += static_cast<double>(bucket.bytes);
  if (result.outcomes[0].order) trained.order = train::to_text(*result.outcomes[0].order);
  return trained;
}

struct Place {
  std::string name;
  std::function<Trained(const TrainingJob& job)> train;
  std::function<void(int ranks, const RankBody& body)> run;
  friend std::ostream& operator<<(std::ostream& out, const Place& place) { return out << place.name; }
};

task::Task<void> train_and_tell(const TrainingJob* job, net::Transport* transport, const ProcessLog* log) {
  TrainingResult result;
  result.outcomes.resize(static_cast<std::size_t>(job->ranks));
  result.recorders.resize(static_cast<std::size_t>(job->ranks));
  auto training = train_rank(job, transport, &result);
  co_await training;
  if (transport->rank() != Rank(0)) co_return;
  const Trained end = trained(result);
  std::string text = fmt::format("{} {:a} {:a}", end.parameters.size(), end.bytes, end.weights);
  for (double parameter : end.parameters) text += fmt::format(" {:a}", parameter);
  log->say(text + "\n" + end.order);
}

Trained train_over_ucx(const TrainingJob& job) {
  const ProcessLog log;
  RankBody body = [&](net::Transport& transport) { return train_and_tell(&job, &transport, &log); };
  run_ranks_as_processes(job.ranks, body, {.transport = "tcp"});
  const std::string text = log.read();
  Trained trained;
  std::size_t count = 0;
  int read = 0;
  if (std::sscanf(text.c_str(), "%zu %la %la%n", &count, &trained.bytes, &trained.weights, &read) != 3)
    return trained;
  const char* at = text.c_str() + read;
  for (char* next = nullptr; trained.parameters.size() < count; at = next)
    trained.parameters.push_back(std::strtod(at, &next));
  trained.order = std::string(at + 1);
  if (!trained.order.empty()) trained.order.pop_back();  // the line's own end
  return trained;
}

std::vector<Place> places() {
  std::vector<Place> places = {
      {"loopback", [](const TrainingJob& job) { return trained(run_training(job)); },
       [](int ranks, const RankBody& body) { run_ranks(ranks, body); }},
      {"virtual",
       [](const TrainingJob& job) {
         return trained(run_virtual_training(job, delayed(separate_hosts(job.ranks)), 1));
       },
       [](int ranks, const RankBody& body) { run_virtual(separate_hosts(ranks), ranks, body); }}};
#if !defined(__SANITIZE_THREAD__)
  places.push_back({"processes", train_over_ucx, [](int ranks, const RankBody& body) {
                      run_ranks_as_processes(ranks, body, {.transport = "tcp"});
                    }});
#endif
  return places;
}

class Laws : public Train, public testing::WithParamInterface<Place> {
 protected:
  static plan::Plan plan_of(plan::LevelPlan level, const std::string& rule = "sgd", int servers = 0) {
    plan::Plan plan = toy_plan();
    plan.length.steps = 20;
    plan.batch.global = 20;  // divides the training set: every replica has as many samples
    plan.learning_rate.base = 0.1;
    plan.optimiser.rule = rule;
    plan.exchange.slice_bytes = 64;
    plan.exchange.levels = {std::move(level)};
    plan.mesh.servers = servers;
    return plan;
  }
  TrainingJob apart(int ranks, plan::Plan plan) {
    TrainingJob job = Train::job(ranks, std::move(plan));
    job.share_memory = false;
    return job;
  }
  std::vector<double> parameters(int ranks, plan::Plan plan) {
    return GetParam().train(apart(ranks, std::move(plan))).parameters;
  }
};

/// Two contributions have one sum whoever adds them; more are summed in rank order wherever the server is.
TEST_P(Laws, ABoundOfZeroIsSynchronousBitForBit) {
  auto single = [](plan::Plan plan) {
    plan.precision = {DType::Float32, DType::Float32};
    return plan;
  };
  const auto synchronous = parameters(2, single(plan_of(plan::LevelPlan{}, "momentum")));
  ASSERT_FALSE(synchronous.empty());
  EXPECT_EQ(parameters(2, single(plan_of(served(), "momentum"))), synchronous);
  EXPECT_EQ(parameters(3, single(plan_of(served(), "momentum", 1))), synchronous);
  const auto beside = parameters(4, single(plan_of(served(), "momentum")));
  for (int servers : {1, 2})
    EXPECT_EQ(parameters(4 + servers, single(plan_of(served(), "momentum", servers))), beside) << servers;
}

TEST_P(Laws, DiLoCoEveryStepWithPlainSgdIsSynchronousSgd) {
  const auto synchronous = parameters(4, plan_of(plan::LevelPlan{}));
  EXPECT_LT(relative_distance(synchronous, parameters(4, plan_of(meets("outer_nesterov", 1)))), 1e-12);
}

TEST_P(Laws, BlockMomentumZeroIsAveraging) {
  const auto averaged = parameters(4, plan_of(meets("average", 5), "momentum"));
  EXPECT_LT(relative_distance(averaged, parameters(4, plan_of(meets("block", 5), "momentum"))), 1e-12);
  EXPECT_GT(relative_distance(averaged, parameters(4, plan_of(plan::LevelPlan{}, "momentum"))), 1e-4);
}

/// What replicas give is what the centre gets, so it goes the share beta of the way to their mean, by
/// all-reduce or by servers. (What is conserved in any order: faults/conservation.h.)
TEST_P(Laws, AnElasticMeetingTakesFromReplicasWhatTheCentreGets) {
  auto short_plan = [](plan::LevelPlan level) {
    plan::Plan plan = plan_of(std::move(level));
    plan.length.steps = 5;
    return plan;
  };
  const auto mean = parameters(4, short_plan(meets("average", 5)));
  plan::Plan standing = short_plan(meets("average", 5));
  standing.learning_rate.base = 0;
  const auto initial = parameters(4, standing);
  for (const char* topology : {"all_reduce", "sharded", "servers"})
    for (double beta : {1.0, 0.25}) {
      plan::LevelPlan level = meets("elastic", 5, topology);
      level.rate = beta;
      std::vector<double> expected = initial;
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += beta * (mean[i] - initial[i]);
      EXPECT_LT(relative_distance(expected, parameters(4, short_plan(level))), 1e-12) << topology << beta;
    }
}

/// Every contribution that counted is in one update, and none that came too late.
TEST_P(Laws, LateGradientsOfBackupWorkersAreNeverApplied) {
  TrainingJob job = apart(4, plan_of(served(0, 2, 2)));
  job.on_events = [](const exchange::AsyncEvents& events) {
    using Kind = exchange::AsyncEvent::Kind;
    std::set<std::tuple<int, int, std::int64_t>> counted, late;
    for (const exchange::AsyncEvent& event : events) {
      const std::tuple contribution{event.unit, event.worker, event.number};
      if (event.kind == Kind::Admit) {
        EXPECT_TRUE(counted.insert(contribution).second);
      }
      if (event.kind == Kind::Drop) late.insert(contribution);
      if (event.kind == Kind::Outdate) {
        EXPECT_EQ(counted.erase(contribution), 1u);
      }
      if (event.kind != Kind::Apply) continue;
      EXPECT_EQ(counted.erase(contribution), 1u);
      EXPECT_EQ(late.count(contribution), 0u);
    }
    EXPECT_TRUE(counted.empty());
    EXPECT_FALSE(events.empty());
  };
  EXPECT_FALSE(GetParam().train(job).parameters.empty());
}

/// And so does a compensation of zero.
TEST_P(Laws, AnAsynchronousRunEqualsItsReplayedOrder) {
  TrainingJob first = apart(4, plan_of(served(-1, 0, 1)));
  first.record_order = true;
  const Trained recorded = GetParam().train(first);
  ASSERT_FALSE(recorded.order.empty());
  const train::ReplayLog order = train::parse_order(recorded.order, "order");
  TrainingJob again = apart(4, first.plan);
  again.follow = &order;
  EXPECT_EQ(GetParam().train(again).parameters, recorded.parameters);
  again.plan.exchange.levels[0].late = "compensated";
  again.plan.exchange.levels[0].options.set("compensation", 0);
  EXPECT_EQ(GetParam().train(again).parameters, recorded.parameters);
  again.plan.exchange.levels[0].options.set("compensation", 0.5);
  EXPECT_NE(GetParam().train(again).parameters, recorded.parameters);
}

task::Task<void> mix(net::Transport* transport, int rounds) {
  tensor::CpuDevice device(transport->executor());
  comm::FlightRecorder recorder;
  comm::Runtime runtime{*transport, device, recorder};
  std::vector<Rank> everybody;
  for (int r = 0; r < transport->world_size(); ++r) everybody.emplace_back(r);
  comm::Communicator all(runtime, "data", everybody);
  auto establish = all.establish();
  co_await establish;
  const plan::LevelPlan level;
  auto gossip = exchange::find_topology("gossip").make(all, {.level = level, .seed = 5});
  constexpr Range kRange{0, 100};
  tensor::Arena arena(*transport, DType::Float64, 100);
  const double own = transport->rank().value();
  for (double& value : arena.values<double>(kRange)) value = own * own;
  double weight = 1;
  for (int round = 0; round < rounds; ++round) {
    auto reducing = gossip->reduce({3, 0, kRange, {}, round}, arena);
    weight = co_await reducing;
    for (double& value : arena.values<double>(kRange)) value /= weight;
  }
  train::Agreement agreement(all);
  auto summing = agreement.sum({weight, weight * arena.values<double>(kRange)[7]});
  const std::vector<double> sums = co_await summing;
  const double size = transport->world_size();
  const double mean = (size - 1) * (2 * size - 1) / 6;
  EXPECT_NEAR(sums[0], size, 1e-12);  // the mass of push-sum's weights
  EXPECT_NEAR(sums[1], size * mean, 1e-9);
  if (1 << rounds != transport->world_size()) co_return;
  for (double value : arena.values<double>(kRange)) EXPECT_EQ(value, mean);
}

TEST_P(Laws, AnExponentialGraphAveragesExactlyAndKeepsItsMass) {
  for (const auto& [ranks, rounds] : {std::pair{2, 1}, std::pair{4, 2}, std::pair{5, 4}}) {
    RankBody body = [rounds = rounds](net::Transport& transport) { return mix(&transport, rounds); };
    GetParam().run(ranks, body);
  }
}

/// Of m bytes of weights, within a hundredth.
TEST_P(Laws, BytesOnTheWireAreTheClosedForms) {
  auto measure = [&](plan::LevelPlan level, int ranks, int servers) {
    plan::Plan plan = plan_of(std::move(level), "sgd", servers);
    plan.length.steps = 10;
    plan.learning_rate.base = 1e-3;
    plan.evaluation.every_epochs = 0;
    plan.exchange.bucket_bytes = plan.exchange.slice_bytes = 1 << 20;
    TrainingJob job = apart(ranks, plan);
    job.make_model = [options = model_options(plan)](int rank) {
      auto large = options;
      large.seed = static_cast<std::uint64_t>(rank);
      large.hidden = 4000;
      return std::make_unique<model::Perceptron>(large);
    };
    const Trained measured = GetParam().train(job);
    return measured.bytes / measured.weights;
  };
  auto expect_near = [](double measured, double expected) {
    EXPECT_GT(measured, 0.99 * expected);
    EXPECT_LT(measured, 1.01 * expected);
  };
  const double n = 4, farewell = 1 + 0.5 / 10;  // a worker hands in once more at the end, unanswered
  plan::LevelPlan ring;
  ring.collective = "ring";
  expect_near(measure(ring, 4, 0), 2 * (n - 1) / n);
  expect_near(measure(served(), 4, 0), 2 * (n - 1) / n * farewell);
  expect_near(measure(served(), 6, 2), 2 * n / (n + 2) * farewell);
  plan::LevelPlan gossip = meets("average", 1, "gossip");
  expect_near(measure(gossip, 4, 0), 1);
  gossip.graph = "ring";
  expect_near(measure(gossip, 4, 0), 2);
  expect_near(measure(meets("elastic", 5), 4, 0), 2 * (n - 1) / n / 5);
  plan::LevelPlan factors = ring;
  factors.factors = plan::FactorUse::Always;
  // Of 5 samples each, both layers: (n - 1) K (M + N). Biases and "idle" go by the ring.
  const double m = 4000, columns = kInputs + kClasses, rest = m + kClasses + 3;
  const double all = m * columns + rest, sent = (n - 1) * 5 * (2 * m + columns) + 2 * (n - 1) / n * rest;
  expect_near(measure(factors, 4, 0) * all, sent);
}

INSTANTIATE_TEST_SUITE_P(Places, Laws, testing::ValuesIn(places()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace taxon::test
