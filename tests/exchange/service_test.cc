// Servers and their workers without a trainer: in an order of arrivals that the test makes, or that one seed
// of the virtual world makes.
#include "exchange/service.h"

#include <gtest/gtest.h>

#include "support/ranks.h"
#include "support/virtual_ranks.h"
#include "tensor/cpu_device.h"

namespace taxon::exchange {
namespace {

constexpr double kRate = 0.1;

Layout layout_of() {
  const std::vector<Tensor> tensors = {{"a", {40}}, {"b", {24}}};
  plan::ExchangePlan plan;
  plan.bucket_bytes = plan.slice_bytes = 320;
  return lay_out(tensors, cut_buckets(tensors, DType::Float64, plan), DType::Float64);
}

/// One rank's side of a group of workers and servers.
class Member {
 public:
  Member(comm::Runtime& runtime, int ranks, int dedicated, plan::LevelPlan level)
      : runtime_(runtime),
        level_(std::move(level)),
        layout_(layout_of()),
        roles_{ranks, dedicated},
        group_(runtime, "data", everybody(ranks)),
        weights(runtime.transport, DType::Float64, layout_.arena.size()),
        gradients(runtime.transport, DType::Float64, layout_.arena.size()) {}

  task::Task<void> begin(double initial) {
    auto establish = group_.establish();
    co_await establish;
    for (double& value : all(weights)) value = initial;
    servers_ = make_servers(group_, {.level = level_, .servers = roles_.dedicated});
    if (!roles_.serves(group_.rank())) co_return;
    Service::Setup setup;
    setup.layout = &layout_;
    setup.group = &group_;
    setup.roles = roles_;
    setup.numbers = {level_.staleness, level_.quorum, level_.apply};
    setup.weights = &weights;
    setup.late = [this](std::size_t owned) {
      return optim::find_late(level_.late).make(level_, {DType::Float64, owned, roles_.workers(), {}});
    };
    plan::OptimiserPlan sgd;
    sgd.rule = "sgd";
    setup.owner =
        own_weights(optim::rule_table()[0].make(sgd, {DType::Float64, layout_.arena.size(), {}, {}}),
                    tensor::Arena(DType::Float64, layout_.arena.size()), [](std::int64_t) { return kRate; });
    service_ = std::make_unique<Service>(runtime_, std::move(setup));
    auto opening = service_->open();
    co_await opening;
    service_->attend(std::int64_t{0}, std::int64_t{0});
  }
  /// Hands in what `gradients` has, as one of the workers' equal shares, and waits for the weights.
  task::Task<void> turn() {
    servers_->begin_turn();
    servers_->weigh(1, roles_.workers());
    for (double& value : all(gradients)) value /= roles_.workers();
    for (const Bucket& bucket : layout_.buckets) {
      const Leg leg{static_cast<std::uint32_t>(bucket.id.value()), 0, bucket.range, {}, 0};
      auto reducing = servers_->reduce(leg, gradients);
      co_await reducing;
      auto spreading = servers_->spread(leg, weights);
      co_await spreading;
    }
  }
  task::Task<void> end() {
    std::vector<Range> units;
    for (const Bucket& bucket : layout_.buckets) units.push_back(bucket.range);
    auto closing = servers_->close(std::move(units), &gradients);
    co_await closing;
    if (!service_) co_return;
    auto closed = service_->closed();
    co_await closed;
  }
  /// A token makes one worker go on after another.
  task::Task<void> give_token(int to) {
    net::SendOp gives(runtime_.transport, Rank(to), group_.tag(net::Operation::Serve, kToken),
                      as_const_view(std::span<const std::int64_t>(&token_, 1)), DType::Int64);
    co_await gives;
  }
  task::Task<void> take_token(int from) {
    net::RecvOp takes(runtime_.transport, Rank(from), group_.tag(net::Operation::Serve, kToken),
                      as_view(std::span<std::int64_t>(&token_, 1)), DType::Int64);
    co_await takes;
  }
  std::span<double> all(const tensor::Arena& arena) const { return arena.values<double>({0, arena.size()}); }
  bool works() const { return roles_.works(group_.rank()); }
  int rank() const { return group_.rank(); }
  const Service* service() const { return service_.get(); }

 private:
  static constexpr std::uint32_t kToken = 0x50000000;
  static std::vector<Rank> everybody(int ranks) {
    std::vector<Rank> everybody;
    for (int r = 0; r < ranks; ++r) everybody.emplace_back(r);
    return everybody;
  }
  comm::Runtime& runtime_;
  const plan::LevelPlan level_;
  const Layout layout_;
  const Roles roles_;
  comm::Communicator group_;
  std::unique_ptr<Topology> servers_;
  std::unique_ptr<Service> service_;
  std::int64_t token_ = 0;

 public:
  tensor::Arena weights, gradients;
};

plan::LevelPlan level_of(std::int64_t staleness, int apply, const char* late = "as_others",
                         double compensation = 0) {
  plan::LevelPlan level;
  level.topology = "servers";
  level.staleness = staleness;
  level.apply = apply;
  level.late = late;
  level.compensation = compensation;
  return level;
}

/// Worker 0's turn, then worker 1's with the same weights, then worker 0's again. What they get.
struct InTurn {
  plan::LevelPlan level;
  std::vector<double> answers;
};

task::Task<void> take_turns(InTurn* run, net::Transport* transport) {
  tensor::CpuDevice device(transport->executor());
  comm::Journal journal;
  comm::Runtime runtime{*transport, device, journal};
  Member member(runtime, 3, 1, run->level);
  auto beginning = member.begin(1);
  co_await beginning;
  struct Turn {
    int worker;
    double gradient;
  };
  constexpr Turn kTurns[] = {{0, 2}, {1, 3}, {0, 1}};
  for (std::size_t t = 0; t < 3; ++t) {
    if (member.rank() != kTurns[t].worker) continue;
    if (t > 0) {
      auto waiting = member.take_token(kTurns[t - 1].worker);
      co_await waiting;
    }
    for (double& value : member.all(member.gradients)) value = kTurns[t].gradient;
    auto turn = member.turn();
    co_await turn;
    run->answers.push_back(member.all(member.weights)[0]);
    for (double value : member.all(member.weights))
      EXPECT_EQ(value == 0 || value == run->answers.back(), true);
    if (t == 2) continue;
    auto going_on = member.give_token(kTurns[t + 1].worker);
    co_await going_on;
  }
  auto ending = member.end();
  co_await ending;
}

std::vector<double> answers_of(plan::LevelPlan level) {
  InTurn run{std::move(level), {}};
  test::RankBody body = [&](net::Transport& transport) { return take_turns(&run, &transport); };
  test::run_ranks(3, body, {});
  return run.answers;
}

void expect_near(const std::vector<double>& answers, const std::vector<double>& expected) {
  ASSERT_EQ(answers.size(), expected.size());
  for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_NEAR(answers[i], expected[i], 1e-12) << i;
}

// w = 1, rate 0.1, gradients 2, 3, 1.
TEST(Service, AsynchronousUpdatesWithEachGradientAsItComes) {
  expect_near(answers_of(level_of(-1, 1)), {0.8, 0.5, 0.4});
}

// Each comes one update late but the first: 3 and 1 are halved.
TEST(Service, LateGradientsCountLess) {
  expect_near(answers_of(level_of(-1, 1, "less")), {0.8, 0.8 - 0.15, 0.65 - 0.05});
}

// lambda = 0.5. Worker 1 was served 1: 3 + 0.5 * 9 * (0.8 - 1) = 2.1, w = 0.59. Worker 0 was served 0.8 by
// then: 1 + 0.5 * (0.59 - 0.8) = 0.895, w = 0.5005.
TEST(Service, DelayCompensationTakesWhatEachWorkerWasServedLast) {
  expect_near(answers_of(level_of(-1, 1, "compensated", 0.5)), {0.8, 0.59, 0.5005});
}

/// Workers whose gradients depend on what they were served, in the order that a seed makes.
struct Racing {
  plan::LevelPlan level;
  int dedicated = 0;
  std::vector<double> weights;  // worker 0's at last
  std::size_t most_late = 0;
};

constexpr int kRanks = 4;

task::Task<void> race(Racing* racing, comm::Runtime* runtime) {
  Member member(*runtime, kRanks, racing->dedicated, racing->level);
  auto beginning = member.begin(1);
  co_await beginning;
  for (int t = 0; t < 20 && member.works(); ++t) {
    auto w = member.all(member.weights);
    auto g = member.all(member.gradients);
    for (std::size_t i = 0; i < g.size(); ++i)
      g[i] = w[i] - 0.1 * (member.rank() + 1) - 0.01 * static_cast<double>(i);
    // Some are slower, but not by much.
    task::SleepUntil computing(
        runtime->executor(), runtime->waits(),
        runtime->executor().now() + Duration(std::chrono::microseconds(50 * member.rank())));
    co_await computing;
    auto turn = member.turn();
    co_await turn;
  }
  if (member.rank() == 0)
    racing->weights.assign(member.all(member.weights).begin(), member.all(member.weights).end());
  auto ending = member.end();
  co_await ending;
  if (member.service()) racing->most_late = std::max(racing->most_late, member.service()->staleness().size());
}

Racing raced(plan::LevelPlan level, int dedicated, std::uint64_t seed) {
  Racing racing{std::move(level), dedicated, {}, 0};
  const plan::ClusterModel cluster = test::delayed(test::separate_hosts(kRanks));
  sim::World world(cluster, kRanks, {.seed = seed});
  sim::RankBody body = [&](comm::Runtime& runtime) { return race(&racing, &runtime); };
  const sim::Report report = world.run(body);
  if (report.failure) std::rethrow_exception(report.failure);
  return racing;
}

/// Conformance of bounded staleness: a bound that nobody reaches changes no bit, one that is reached does.
TEST(Service, ABoundThatNobodyReachesIsAsynchronous) {
  for (int dedicated : {0, 1})
    for (std::uint64_t seed : {1, 2, 3}) {
      const Racing free = raced(level_of(-1, 1), dedicated, seed);
      EXPECT_GT(free.most_late, 2u);
      EXPECT_EQ(raced(level_of(1000, 1), dedicated, seed).weights, free.weights) << dedicated << " " << seed;
      EXPECT_NE(raced(level_of(1, 1), dedicated, seed).weights, free.weights) << dedicated << " " << seed;
    }
}

TEST(Service, OneOrderOfArrivalsIsOneResult) {
  for (const char* late : {"as_others", "less", "compensated", "compensated_adaptively"}) {
    const auto level = level_of(-1, 1, late, 2);
    EXPECT_EQ(raced(level, 1, 1).weights, raced(level, 1, 1).weights) << late;
    EXPECT_NE(raced(level, 1, 1).weights, raced(level, 1, 2).weights) << late;
  }
}

}  // namespace
}  // namespace taxon::exchange
