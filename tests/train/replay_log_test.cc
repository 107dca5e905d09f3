// Runs whose ranks don't keep step, recorded, and run again in their order elsewhere.
#include "train/replay/replay_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "train/modes.h"
#include "train/toy_job.h"
#include "train/virtual_run.h"

namespace taxon::test {
namespace {

using exchange::AsyncEvent;
using Kind = AsyncEvent::Kind;
using testing::HasSubstr;

train::ReplayLog one_of_each() {
  train::ReplayLog order{"seed: 1\nbatch:\n  global: 12\n", 0xabcdef, std::vector<exchange::AsyncEvents>(3)};
  for (Kind kind :
       {Kind::Admit, Kind::Drop, Kind::Repeat, Kind::Update, Kind::Answer, Kind::Pause, Kind::Lose,
        Kind::Turn, Kind::Report, Kind::Stop, Kind::Average, Kind::OwnWay, Kind::TakeOver})
    order.ranks[2].push_back({kind, 7, 1, std::int64_t{1} << 40});
  order.ranks[0].push_back({Kind::Report, AsyncEvent::kNoUnit, 0, 3});
  return order;
}

TEST(Order, IsTheSameAfterItWasWritten) {
  const train::ReplayLog order = one_of_each();
  const train::ReplayLog again = train::parse_order(train::to_text(order), "order.txt");
  EXPECT_EQ(again.ranks, order.ranks);
  EXPECT_EQ(again.plan, order.plan);
  EXPECT_EQ(again.parameter_hash, order.parameter_hash);
  EXPECT_EQ(train::unpack_acts(train::pack_acts(order.ranks[2]), Rank(2)), order.ranks[2]);
  const exchange::AsyncEvents update{
      {Kind::Update, 1, 0, 2}, {Kind::Apply, 1, 3, 2}, {Kind::Answer, 1, 3, 2}};
  EXPECT_EQ(train::unpack_acts(train::pack_acts(update), Rank(0)),
            (exchange::AsyncEvents{update[0], update[2]}));
}

TEST(Order, ThatIsNoneIsRefusedWithItsLine) {
  auto message = [](const std::string& text) -> std::string {
    try {
      train::parse_order(text, "order.txt");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Data);
      return error.what();
    }
    return "";
  };
  train::ReplayLog order = one_of_each();
  const std::string whole = train::to_text(order);
  EXPECT_EQ(message(whole), "");
  const std::string damaged = "order.txt:1: what follows is not what was written";
  EXPECT_THAT(message(whole.substr(0, whole.size() - 40)), HasSubstr(damaged));
  std::string changed = whole;
  changed.replace(changed.rfind("take_over"), 9, "own_way");
  EXPECT_THAT(message(changed), HasSubstr(damaged));
  EXPECT_THAT(message("loss 1\n"), HasSubstr("order.txt:1: 'loss 1' is not the first line"));
  EXPECT_THAT(message(""), HasSubstr("order.txt:1"));
  order.ranks[2].push_back({Kind::Admit, 7, 3, 0});  // a worker that does not exist
  EXPECT_THAT(message(train::to_text(order)), HasSubstr("'2 admit 7 3 0' is no act"));
}

std::vector<std::string> refusals(const plan::Plan& plan, int ranks, const train::ReplayLog& order) {
  std::vector<std::string> sentences;
  for (const plan::Problem& problem : train::problems_of_following(plan, ranks, order, "order.txt"))
    sentences.push_back(problem.sentence);
  return sentences;
}

TEST(Order, OfAnotherPlanOrNumberOfRanksOrOfALossIsRefused) {
  plan::Plan plan = toy_plan();
  plan.exchange.levels[0].topology = "servers";
  plan.exchange.levels[0].options.set("staleness", -1);
  EXPECT_THAT(train::problems_of_recording(plan), testing::IsEmpty());
  train::ReplayLog order{train::decisive_plan(plan), 1, std::vector<exchange::AsyncEvents>(4)};
  EXPECT_THAT(refusals(plan, 4, order), testing::IsEmpty());
  plan::Plan other = plan;
  other.name = "again";
  other.transport.kind = "tcp";
  other.report.hash_steps = 7;
  EXPECT_THAT(refusals(other, 4, order), testing::IsEmpty());
  other.learning_rate.base = 0.25;
  other.exchange.levels[0].options.set("staleness", 3);
  order.ranks[1].push_back({Kind::Lose, 0, 2, 0});
  EXPECT_THAT(refusals(other, 3, order),
              testing::ElementsAre("order.txt is of 4 ranks, and this run has 3: start as many",
                                   "order.txt is of another plan: learning_rate.base was 0.2 and is 0.25; "
                                   "exchange.levels[0].staleness was -1 and is 3",
                                   "order.txt is of a run that lost rank 2: that can't be followed"));
  EXPECT_THAT(train::problems_of_recording(toy_plan()), testing::SizeIs(1));
}

/// How many contributions make an update depends on when the last one came.
class Timely final : public exchange::ConsistencyRule {
 public:
  std::int64_t lead(int, exchange::WorkerClocks) const override { return kUnbounded; }
  int apply(exchange::WorkerClocks) const override { return size_; }
  void arrived(int, Instant now, exchange::WorkerClocks) override {
    size_ = 1 + static_cast<int>(now.time_since_epoch().count() / 1000 % 2);
  }

 private:
  int size_ = 1;
};
constexpr exchange::ConsistencyRow kConsistencies[] = {
    {.name = "timely",
     .sentence = "one or two contributions make an update",
     .make = [](const plan::LevelPlan&, const exchange::ConsistencyContext&)
         -> std::unique_ptr<exchange::ConsistencyRule> { return std::make_unique<Timely>(); },
     .bounds = [](const plan::LevelPlan&) { return plan::ConsistencyBounds{.lead = -1, .apply = 1}; },
     .reads_times = true}};

/// One way not to keep step.
struct Row {
  std::string name;
  std::function<void(plan::Plan&)> apply;
  int ranks = 4;
  friend std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.name; }
};

plan::LevelPlan meets_freely(std::string rule, int period, std::string topology = "servers") {
  plan::LevelPlan level = meets(std::move(rule), period, std::move(topology));
  if (level.topology == "servers") level.options = {{"staleness", -1}, {"apply", 1}};
  if (level.rule == "elastic") level.rate = 0.9;
  return level;
}

std::vector<Row> rows() {
  auto by = [](plan::LevelPlan level) {
    return [level](plan::Plan& plan) { plan.exchange.levels = {level}; };
  };
  plan::LevelPlan moved = meets_freely("accumulated", 3);
  moved.late = "moved";
  plan::LevelPlan coded = asynchronous();
  coded.codec = {.name = "top_k", .answer = "int8", .options = {{"density", 0.2}}};
  plan::LevelPlan bounded_elastic = meets_freely("elastic", 2);
  bounded_elastic.options.set("staleness", 1);
  std::vector<Row> rows = {
      {"asynchronous", by(asynchronous())},
      {"less", by(asynchronous("less"))},
      {"compensated", by(asynchronous("compensated_adaptively", 2))},
      {"bounded", by(served(2, 0, 1))},
      {"quorum", by(served(0, 2, 2))},
      {"softsync", by(served(-1, 0, 2))},
      {"timely", by({.topology = "servers", .consistency = "timely"})},
      {"sampled", by({.topology = "servers", .consistency = "sampled", .options = {{"staleness", 1}}})},
      {"elastic", by(meets_freely("elastic", 3))},
      {"bounded_elastic", by(bounded_elastic)},
      {"accumulated", by(moved)},
      {"coded", [coded](plan::Plan& plan) {
         plan.exchange.levels = {coded};
         plan.precision = {DType::Float32, DType::Float32};
       }}};
  const std::size_t by_servers = rows.size();
  for (std::size_t r = 0; r < by_servers; ++r)
    rows.push_back({rows[r].name + "_dedicated",
                    [apply = rows[r].apply](plan::Plan& plan) {
                      apply(plan);
                      plan.mesh.servers = 2;
                    },
                    6});
  rows.push_back({"pairs", by(meets_freely("average", 1, "pairs"))});
  rows.push_back({"pairs_now_and_then", by(meets_freely("average", 3, "pairs")), 5});
  rows.push_back({"groups", [](plan::Plan& plan) {
                    plan.exchange.levels = {level("node", "sharded"), level("across", "servers")};
                    plan.exchange.levels[1].options = {{"staleness", -1}, {"apply", 1}};
                    plan.mesh.node = 2;
                  }});
  return rows;
}

class Followed : public Train, public testing::WithParamInterface<Row> {
 protected:
  static constexpr std::uint64_t kSeeds = 3;
  TrainingJob job() {
    plan::Plan plan = toy_plan(DType::Float32);
    plan.optimiser.rule = "momentum";
    plan.length.steps = 30;
    plan.learning_rate.base = 0.05;
    plan.learning_rate.schedule = "cosine";  // who has come how far changes rates
    plan.exchange.slice_bytes = 64;
    GetParam().apply(plan);
    TrainingJob job = Train::job(GetParam().ranks, plan);
    job.share_memory = false;
    job.own.consistencies = kConsistencies;
    return job;
  }
  static TrainingJob delayed_by(TrainingJob job, std::uint64_t seed) {
    job.faults = {.seed = seed, .longest_delay = std::chrono::microseconds(200)};
    return job;
  }
  static void expect_equal(const TrainingResult& a, const TrainingResult& b) {
    EXPECT_EQ(a.outcomes[0].parameter_hash, b.outcomes[0].parameter_hash);
    EXPECT_EQ(a.parameters, b.parameters);
    EXPECT_EQ(a.outcomes[0].test.loss, b.outcomes[0].test.loss);
    EXPECT_EQ(a.outcomes[0].samples, b.outcomes[0].samples);
    EXPECT_EQ(a.outcomes[0].staleness, b.outcomes[0].staleness);
    EXPECT_EQ(a.outcomes[0].dropped, b.outcomes[0].dropped);
    ASSERT_EQ(a.recorders[0].evaluations.size(), b.recorders[0].evaluations.size());
    for (std::size_t i = 0; i < a.recorders[0].evaluations.size(); ++i)
      EXPECT_EQ(a.recorders[0].evaluations[i].loss, b.recorders[0].evaluations[i].loss);
    for (std::size_t rank = 0; rank < a.recorders.size(); ++rank)
      EXPECT_EQ(a.recorders[rank].steps.size(), b.recorders[rank].steps.size());
    ASSERT_TRUE(a.outcomes[0].order && b.outcomes[0].order);
    for (std::size_t rank = 0; rank < a.recorders.size(); ++rank)
      EXPECT_EQ(by_unit(a.outcomes[0].order->ranks[rank]), by_unit(b.outcomes[0].order->ranks[rank]));
  }
  static std::map<std::pair<AsyncEvent::Role, std::int32_t>, exchange::AsyncEvents> by_unit(
      const exchange::AsyncEvents& events) {
    std::map<std::pair<AsyncEvent::Role, std::int32_t>, exchange::AsyncEvents> units;
    for (const AsyncEvent& event : events)
      units[{AsyncEvent::role_of(event.kind), event.unit}].push_back(event);
    return units;
  }
};

TEST_P(Followed, OverLoopbackARunIsRepeatedBitForBitThereAndInTheVirtualWorld) {
  TrainingJob first = job();
  first.record_order = true;
  std::set<std::vector<double>> ends;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const TrainingResult recorded = run_training(delayed_by(first, seed));
    ends.insert(recorded.parameters);
    TrainingJob again = first;
    again.follow = &*recorded.outcomes[0].order;
    EXPECT_TRUE(train::problems_of_following(again.plan, again.ranks, *again.follow, "order").empty());
    {
      SCOPED_TRACE("loopback");
      expect_equal(recorded, run_training(delayed_by(again, seed + 100)));
    }
    {
      SCOPED_TRACE("virtual");
      const plan::ClusterModel cluster = delayed(separate_hosts(again.ranks));
      const TrainingResult followed = run_virtual_training(again, cluster, seed);
      expect_equal(recorded, followed);
      EXPECT_THAT(followed.recorders[0].notices, testing::Contains(HasSubstr("bit for bit")));
    }
  }
  EXPECT_GT(ends.size(), 1u) << "nothing depended on the order";
}

TEST_P(Followed, InTheVirtualWorldARunIsRepeatedBitForBitThereAndOverLoopback) {
  TrainingJob first = job();
  first.record_order = true;
  const plan::ClusterModel cluster = separate_hosts(first.ranks);
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const TrainingResult recorded = run_virtual_training(first, delayed(cluster), seed);
    TrainingJob again = first;
    again.follow = &*recorded.outcomes[0].order;
    expect_equal(recorded, run_virtual_training(again, delayed(cluster), seed + 100));
    expect_equal(recorded, run_virtual_training(again, cluster));
    expect_equal(recorded, run_training(again));
  }
}

/// An end by the clock, or by somebody who asks, is a part of the order.
TEST_P(Followed, ARunThatWasStoppedIsFollowedToWhereItStopped) {
  TrainingJob first = job();
  first.record_order = true;
  first.stop_after = 10;
  const plan::ClusterModel cluster = delayed(separate_hosts(first.ranks));
  const TrainingResult recorded = run_virtual_training(first, cluster, 1);
  EXPECT_EQ(recorded.outcomes[0].end, train::Outcome::End::Interrupted);
  TrainingJob again = job();
  again.follow = &*recorded.outcomes[0].order;
  const TrainingResult followed = run_virtual_training(again, cluster, 2);
  EXPECT_EQ(followed.outcomes[0].parameter_hash, recorded.outcomes[0].parameter_hash);
  EXPECT_EQ(followed.outcomes[0].samples, recorded.outcomes[0].samples);
  EXPECT_LT(followed.outcomes[0].samples, run_virtual_training(job(), cluster, 1).outcomes[0].samples);
}

/// Refused where plans are checked. Otherwise somebody finds that the order is of another run, or all wait
/// for it.
TEST_P(Followed, AnotherRunEndsAndNamesTheOrder) {
  TrainingJob first = job();
  first.record_order = true;
  const plan::ClusterModel cluster = separate_hosts(first.ranks);
  const TrainingResult recorded = run_virtual_training(first, cluster, 1);
  TrainingJob longer = job();
  longer.plan.length.steps = 40;
  longer.follow = &*recorded.outcomes[0].order;
  try {
    run_virtual_training(longer, cluster, 1);
    FAIL() << "it went on";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::AnyOf(HasSubstr("can't go on in the order that it follows"),
                                             HasSubstr("the order that is followed")));
  }
}

/// Whatever of the order is gone: the run ends with an error, or it was nothing that decided anything.
TEST_P(Followed, WithoutOneOfItsActsItEndsOneWayOrAnother) {
  TrainingJob first = job();
  first.plan.length.steps = 12;
  first.record_order = true;
  const plan::ClusterModel cluster = delayed(separate_hosts(first.ranks));
  const TrainingResult recorded = run_virtual_training(first, cluster, 1);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    train::ReplayLog broken = *recorded.outcomes[0].order;
    Rng rng(seed, "act", 0);
    exchange::AsyncEvents& events = broken.ranks[rng.below(broken.ranks.size())];
    if (events.empty()) continue;
    events.erase(events.begin() + static_cast<std::ptrdiff_t>(rng.below(events.size())));
    TrainingJob again = first;
    again.follow = &broken;
    try {
      run_virtual_training(again, cluster, seed);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::AnyOf(HasSubstr("can't go on in the order that it follows"),
                                               HasSubstr("wait for each other"), HasSubstr("waits for")))
          << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, Followed, testing::ValuesIn(rows()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace taxon::test
