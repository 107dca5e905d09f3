#include "exchange/extensions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exchange/compression/coded.h"
#include "exchange/levels/algorithm_selection.h"
#include "exchange/levels/levels.h"
#include "support/errors.h"

namespace taxon::exchange {
namespace {

using testing::Contains;
using testing::HasSubstr;

/// What nobody here calls.
template <class Made, class... From>
std::unique_ptr<Made> unmade(From...) {
  return nullptr;
}
Neighbours nobody(int, int, std::int64_t, std::uint64_t) { return {}; }
task::Task<void> nothing(comm::Communicator&, comm::Call) { co_return; }

constexpr TopologyRow kTopologies[] = {
    {"silent", unmade<Topology>, net::Operation::User, net::Operation::User,
     [](std::size_t count, int) { return count / 2; },
     [](const plan::LevelPlan&, std::size_t, const LevelShape&, const Extensions&) { return 7.0; },
     [](const plan::LevelPlan&, const Extensions&) { return Scheduling::Free; }},
    {"sharded", unmade<Topology>, net::Operation::User, net::Operation::User,
     [](std::size_t count, int) { return count; }, nullptr}};
constexpr GraphRow kGraphs[] = {{"star", nobody}, {"wheel", nobody, true}};
constexpr optim::OuterRow kOuter[] = {{"frozen", "nothing moves", unmade<optim::OuterRule>, 0}};
constexpr optim::LateRow kLate[] = {
    {"forgotten", "late gradients count nothing", optim::LateRow::Corrects::Gradients, true, nullptr}};
constexpr optim::RuleRow kRules[] = {{"lion", unmade<optim::Rule>, 1}};
constexpr comm::CollectiveRow kCollectives[] = {
    {net::Operation::AllReduce, "free", [](const comm::Shape&) { return true; },
     [](const comm::Shape&, const comm::LinkCost&) { return 0.0; }, [](const comm::Shape&) { return 1.0; },
     nothing}};
constexpr ConsistencyRow kConsistencies[] = {
    {.name = "patient",
     .sentence = "all wait for all, some day",
     .make = unmade<ConsistencyRule>,
     .bounds = [](const plan::LevelPlan&) { return plan::ConsistencyBounds{.lead = 7, .apply = 1}; }}};
constexpr Extensions kOwn{.topologies = kTopologies,
                          .graphs = kGraphs,
                          .outer_rules = kOuter,
                          .late_rules = kLate,
                          .rules = kRules,
                          .collectives = kCollectives,
                          .consistencies = kConsistencies};

TEST(Extensions, AreFoundBeforeThoseOfTheTables) {
  EXPECT_EQ(&find_topology("sharded", kTopologies), &kTopologies[1]);
  EXPECT_NE(&find_topology("sharded"), &kTopologies[1]);
  EXPECT_EQ(&find_topology("all_reduce", kTopologies), &find_topology("all_reduce"));
  EXPECT_EQ(&find_graph("star", kGraphs), &kGraphs[0]);
  EXPECT_EQ(&optim::find_outer("frozen", kOuter), &kOuter[0]);
  EXPECT_EQ(&optim::find_late("forgotten", kLate), &kLate[0]);
  EXPECT_EQ(&optim::find_rule("lion", kRules), &kRules[0]);
  EXPECT_EQ(&find_consistency("patient", kConsistencies), &kConsistencies[0]);
}

TEST(Extensions, AreNobodyElses) {
  EXPECT_THROW(find_topology("silent"), Error);
  EXPECT_THROW(find_graph("star"), Error);
  EXPECT_THROW(optim::find_outer("frozen"), Error);
  EXPECT_THROW(optim::find_late("forgotten"), Error);
  EXPECT_THROW(optim::find_rule("lion"), Error);
  EXPECT_THROW(find_consistency("patient"), Error);
}

TEST(Extensions, TellPaceSizesAndTraffic) {
  const std::vector<plan::LevelPlan> levels = {{.topology = "silent"}};
  EXPECT_FALSE(workers_keep_step(levels, kOwn));
  EXPECT_FALSE(workers_are_bounded(levels, kOwn));
  plan::Plan plan;
  plan.exchange.levels = levels;
  plan.resolved.buckets = {{.parameters = {"w"}, .bytes = 40}};
  const LevelShape shapes[] = {{3, false}};
  resolve_exchange(plan, shapes, kOwn);
  const plan::BucketPlan& bucket = plan.resolved.buckets[0];
  EXPECT_TRUE(bucket.collectives.empty());
  EXPECT_EQ(rows_of(bucket, levels, kOwn).size(), 1u);
  EXPECT_EQ(bytes_owned(bucket, levels, shapes, kOwn), 20u);
  EXPECT_EQ(bytes_sent(bucket, levels, {.shapes = shapes, .own = kOwn}), 7);
}

/// Named, or chosen because it is the cheapest; also for the wires of a codec that an all-reduce sums.
TEST(Extensions, CollectivesServeLevelsAndAreWeighedAgainstTheTables) {
  const LevelShape shapes[] = {{3, false}};
  for (const char* collective : {"free", "auto"}) {
    plan::Plan plan;
    plan.exchange.levels = {{.collective = collective}};
    plan.resolved.buckets = {{.parameters = {"w"}, .bytes = 40}};
    resolve_exchange(plan, shapes, kOwn);
    const plan::BucketPlan& bucket = plan.resolved.buckets[0];
    EXPECT_EQ(bucket.collectives, (std::vector<std::string>{"all_reduce free"}));
    EXPECT_EQ(rows_of(bucket, plan.exchange.levels, kOwn)[0].reduce, &kCollectives[0]);
    EXPECT_THROW(rows_of(bucket, plan.exchange.levels), Error);
    EXPECT_EQ(bytes_sent(bucket, plan.exchange.levels, {.shapes = shapes, .own = kOwn}), 1);
  }
  const plan::LevelPlan coded{.collective = "free", .codec = {.name = "random_k"}};
  EXPECT_EQ(coded_bytes_sent(coded, {100, {}}, 3, kOwn), 1);
  EXPECT_THROW(coded_bytes_sent(coded, {100, {}}, 3), Error);
}

TEST(Extensions, OfServersSayWhetherWorkersKeepStep) {
  const std::vector<plan::LevelPlan> levels = {{.topology = "servers", .consistency = "patient"}};
  EXPECT_FALSE(workers_keep_step(levels, kOwn));
  EXPECT_TRUE(workers_are_bounded(levels, kOwn));
  plan::Plan plan;
  plan.mesh.servers = 1;
  plan.exchange.levels = levels;
  EXPECT_EQ(expendable_ranks(plan, 4, kOwn), (std::vector{Rank(1), Rank(2)}));
}

TEST(Extensions, AreKnownToTheLegalityTable) {
  const plan::Catalogue known = catalogue(kOwn);
  EXPECT_FALSE(known.find_graph("star")->balanced);
  EXPECT_TRUE(known.find_graph("wheel")->balanced && known.find_graph("ring")->balanced);
  EXPECT_TRUE(known.find_outer("frozen"));
  EXPECT_TRUE(known.find_rule("lion"));
  EXPECT_EQ(known.topologies.front().name, "silent");
  EXPECT_EQ(known.lates.front().name, "forgotten");
  EXPECT_EQ(known.consistencies.front().name, "patient");
  EXPECT_EQ(known.bounds_of({.consistency = "patient"}).lead, 7);
  EXPECT_TRUE(known.lates.front().gradients && !known.lates.front().weights);
  EXPECT_EQ(known.topologies.size(), topology_table().size() + 2);
  EXPECT_THAT(known.find_topology("all_reduce")->collectives, Contains("free"));
  EXPECT_EQ(known.find_topology("all_reduce")->collectives.size(),
            catalogue().find_topology("all_reduce")->collectives.size() + 1);
}

TEST(Extensions, OfGraphsSayWhetherReplicasInnerStateCanMix) {
  const plan::Catalogue known = catalogue(kOwn);
  auto problems = [&](std::string graph) {
    plan::Plan plan;
    plan.batch.global = 8;
    plan.length.steps = 1;
    plan.exchange.levels = {{.topology = "gossip",
                             .graph = std::move(graph),
                             .rule = "average",
                             .inner_state = plan::InnerState::Average}};
    return plan::check_plan(plan, 2, known);
  };
  ASSERT_EQ(problems("star").size(), 1u);
  EXPECT_THAT(problems("star")[0].sentence, HasSubstr("graph is star, inner_state is average"));
  EXPECT_TRUE(problems("wheel").empty());
}

/// Every member of every table that is called without a look is asked for, by the rows' names.
TEST(Extensions, WithoutWhatTheirTablesCallAreRefusedAllTogether) {
  constexpr TopologyRow topologies[] = {
      {.name = "a", .make = nullptr, .owned = nullptr, .scheduling = nullptr}};
  constexpr GraphRow graphs[] = {{"b", nullptr}};
  constexpr optim::OuterRow outer[] = {{.name = "c", .make = nullptr}};
  constexpr optim::LateRow lates[] = {{.sentence = "no name"}};
  constexpr optim::RuleRow rules[] = {{.name = "e", .make = nullptr}};
  constexpr codec::CodecRow codecs[] = {{.name = "f"}};
  constexpr comm::CollectiveRow collectives[] = {{.collective = net::Operation::AllReduce, .name = "g"}};
  constexpr optim::ScheduleRow schedules[] = {{.name = "h", .make = nullptr}};
  constexpr ConsistencyRow consistencies[] = {{.name = "i", .make = nullptr, .bounds = nullptr}};
  constexpr program::ScheduleRow pipelines[] = {{.name = "j"}};
  constexpr parallel::SplitRow splits[] = {{.name = "k"}, {.sentence = "no name"}};
  const parallel::LayerKind kinds[] = {{.name = "l"}};
  const Extensions own{.topologies = topologies,
                       .graphs = graphs,
                       .outer_rules = outer,
                       .late_rules = lates,
                       .rules = rules,
                       .codecs = codecs,
                       .collectives = collectives,
                       .schedules = schedules,
                       .consistencies = consistencies,
                       .pipelines = pipelines,
                       .splits = splits,
                       .layer_kinds = kinds};
  const char* const kMissing[] = {"topologies: row \"a\" lacks its member make",
                                  "row \"a\" lacks its member owned",
                                  "row \"a\" lacks its member scheduling",
                                  "graphs: row \"b\" lacks its member at",
                                  "outer_rules: row \"c\" lacks its member make",
                                  "late_rules: row 0 lacks its member name",
                                  "rules: row \"e\" lacks its member make",
                                  "codecs: row \"f\" lacks its member make",
                                  "collectives: row \"g\" lacks its member applies",
                                  "row \"g\" lacks its member estimate",
                                  "row \"g\" lacks its member sent",
                                  "row \"g\" lacks its member steps",
                                  "schedules: row \"h\" lacks its member make",
                                  "consistencies: row \"i\" lacks its member make",
                                  "pipelines: row \"j\" lacks its member options",
                                  "row \"j\" lacks its member ranks",
                                  "row \"j\" lacks its member problems",
                                  "row \"j\" lacks its member actions",
                                  "splits: row 1 lacks its member name",
                                  "layer_kinds: row \"l\" lacks its member has"};
  try {
    catalogue(own);
    ADD_FAILURE() << "rows without functions were taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    for (const char* missing : kMissing) EXPECT_THAT(error.what(), HasSubstr(missing));
  }
}

TEST(Extensions, OfTaxonsTablesAreWhole) {
  EXPECT_NO_THROW(require_whole({.topologies = topology_table(),
                                 .graphs = graph_table(),
                                 .outer_rules = optim::outer_table(),
                                 .late_rules = optim::late_table(),
                                 .rules = optim::rule_table(),
                                 .codecs = codec::codec_table(),
                                 .collectives = comm::collective_table(),
                                 .schedules = optim::schedule_table(),
                                 .consistencies = consistency_table(),
                                 .pipelines = program::schedule_table(),
                                 .splits = parallel::split_table()}));
}

}  // namespace
}  // namespace taxon::exchange
