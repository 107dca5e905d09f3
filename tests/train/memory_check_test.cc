#include "train/start/memory_check.h"

#include "exchange/layout/shard.h"
#include "train/state/arena_bytes.h"
#include "train/state/state.h"
#include "train/toy_job.h"

namespace taxon::test {
namespace {

/// What State makes of a plan, and what is said of it beforehand.
void expect_foreseen(const plan::Plan& plan, bool sharded, int versions = 1) {
  run_ranks(1, [&](net::Transport& transport) -> task::Task<void> {
    const data::Blobs samples({.size = 4, .inputs = kInputs, .classes = kClasses});
    const model::Perceptron model({.shape = samples.shape(), .hidden = kHidden});
    const std::vector<exchange::Tensor> tensors = train::trainable(model.spec());
    exchange::Layout layout =
        exchange::lay_out(tensors, exchange::cut_buckets(tensors, plan), plan.precision.master);
    if (sharded) layout.shard /= 2;
    if (plan.exchange.gradients == plan::GradientMemory::Ring)
      exchange::lay_out_ring(layout, static_cast<int>(model.spec().segments.size()), plan.exchange.in_flight);
    const train::ArenaBytes foreseen =
        train::arena_bytes(plan, layout, optim::find_rule(plan.optimiser.rule), versions);
    const train::ArenaBytes made = train::State(transport, plan, layout, model.spec(), {}, versions).bytes();
    EXPECT_EQ(foreseen.weights, made.weights);
    EXPECT_EQ(foreseen.gradients, made.gradients);
    EXPECT_EQ(foreseen.optimiser, made.optimiser);
    co_return;
  });
}

TEST(ArenaBytes, AreForeseen) {
  for (const optim::RuleRow& rule : optim::rule_table()) {
    SCOPED_TRACE(rule.name);
    plan::Plan plan = toy_plan(DType::Float32);
    plan.optimiser.rule = rule.name;
    expect_foreseen(plan, false);
    expect_foreseen(plan, true);
    plan.precision.compute = DType::BFloat16;
    plan.exchange.delay = 2;
    expect_foreseen(plan, false);
  }
}

TEST(ArenaBytes, OfVersionsOfTheWeightsAreForeseen) {
  expect_foreseen(toy_plan(), false, 3);
  plan::Plan plan = toy_plan(DType::Float32);
  plan.precision.compute = DType::BFloat16;
  expect_foreseen(plan, false, 2);
}

TEST(ArenaBytes, OfARingAndOfReplicasThatMeetAreForeseen) {
  plan::Plan plan = toy_plan();
  plan.exchange.gradients = plan::GradientMemory::Ring;
  expect_foreseen(plan, true);
  plan = toy_plan();
  plan.exchange.levels.front().rule = "average";
  expect_foreseen(plan, false);
}

TEST(RequireMemory, RefusesFiguresThatNoRankHas) {
  const train::RankMemory memory{"a", 100};
  const std::vector<std::byte> good = train::pack(memory, {{10, 10, 10}, 10, 1});
  EXPECT_NO_THROW(train::require_memory({good, good}));
  const auto kind_of_refusal = [&](const std::vector<std::byte>& forged) {
    try {
      train::require_memory({good, forged});
    } catch (const Error& error) {
      EXPECT_EQ(error.context().rank, Rank(1)) << error.what();
      return error.kind();
    }
    return ErrorKind::Internal;
  };
  EXPECT_EQ(kind_of_refusal(train::pack(memory, {{10, 10, 10}, 10, -1})), ErrorKind::Mismatch);
  EXPECT_EQ(kind_of_refusal({good.begin(), good.end() - 1}), ErrorKind::Mismatch);
}

class Memory : public Train {};

TEST_F(Memory, ThatRanksOfAHostDoNotHaveIsRefusedEverywhereWithTheFigures) {
  TrainingJob wide = job(3, toy_plan());
  const std::size_t arenas = run_training(wide).recorders[0].info.arenas.total();
  // Enough for one rank, not for both that share it; and a host whose memory nobody knows.
  wide.memory = {{"a", arenas * 3 / 2}, {"a", arenas * 3 / 2}, {"b", 0}};
  const std::string why = want_of_memory(wide);
  EXPECT_NE(why.find("ranks 0, 1 need at least"), std::string::npos) << why;
  EXPECT_NE(why.find("activations of 8 samples"), std::string::npos) << why;
  EXPECT_EQ(why.find("rank 2"), std::string::npos) << why;
  wide.memory = {{"a", arenas * 4}, {"a", arenas * 4}, {"b", 10}};
  const std::string other = want_of_memory(wide);
  EXPECT_NE(other.find("rank 2 needs at least"), std::string::npos) << other;
  wide.memory = {{"a", arenas * 4}, {"a", arenas * 4}, {"b", arenas * 2}};
  EXPECT_NO_THROW(run_training(wide));
}

}  // namespace
}  // namespace taxon::test
