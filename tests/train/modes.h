#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace taxon::test {

/// One way in which ranks keep their replicas equal. A new topology, level or memory plan is a line in
/// modes().
struct Mode {
  std::string name;
  std::function<void(plan::Plan&)> apply;
  bool delayed = false;  // weights are one update older: another trajectory
  friend std::ostream& operator<<(std::ostream& out, const Mode& mode) { return out << mode.name; }
};

inline plan::LevelPlan level(std::string_view group, std::string topology, std::string collective = "auto") {
  return {plan::choice_from<plan::LevelGroup>(group).value(), std::move(topology), std::move(collective)};
}

/// Servers by the numbers of their consistency.
inline plan::LevelPlan served(std::int64_t staleness = 0, int quorum = 0, int apply = 0) {
  plan::LevelPlan level;
  level.topology = "servers";
  level.options = {{"staleness", staleness}, {"quorum", quorum}, {"apply", apply}};
  return level;
}

/// One contribution is an update, whenever it comes; `late` says what becomes of late ones.
inline plan::LevelPlan asynchronous(std::string late = "as_others", double compensation = 0.04) {
  plan::LevelPlan level = served(-1, 0, 1);
  level.late = std::move(late);
  level.options.set("compensation", compensation);
  return level;
}

/// For worlds of an even number of ranks in nodes of two.
inline std::vector<Mode> modes() {
  auto levels = [](std::vector<plan::LevelPlan> levels) {
    return [levels](plan::Plan& plan) {
      plan.exchange.levels = levels;
      plan.mesh.node = levels.size() > 1 ? 2 : 0;
    };
  };
  auto ring = [](std::function<void(plan::Plan&)> apply) {
    return [apply](plan::Plan& plan) {
      apply(plan);
      plan.exchange.gradients = plan::GradientMemory::Ring;
      plan.exchange.order = plan::BucketOrder::Backward;
    };
  };
  auto delayed = [](std::function<void(plan::Plan&)> apply) {
    return [apply](plan::Plan& plan) {
      apply(plan);
      plan.exchange.delay = 1;
    };
  };
  auto factors = [](plan::LevelPlan level) {
    level.factors = plan::FactorUse::Always;
    return level;
  };
  auto in_parts = [](plan::LevelPlan level, int prefetch = 1) {
    level.options = {{"parameters", "sharded"}, {"prefetch", prefetch}};
    return level;
  };
  auto micro_batched = [](std::function<void(plan::Plan&)> apply) {
    return [apply](plan::Plan& plan) {
      apply(plan);
      plan.batch.micro_batches = 2;
    };
  };
  auto as_factors = levels({factors(level("data", "all_reduce"))});
  auto replicated = levels({level("data", "all_reduce")});
  auto sharded = levels({level("data", "sharded")});
  auto hierarchical = levels({level("node", "sharded"), level("across", "all_reduce")});
  return {
      {"replicated", replicated},
      {"sharded", sharded},
      {"sharded_by_ring", levels({level("data", "sharded", "ring")})},
      {"sharded_gradients", ring(sharded)},
      {"hierarchical", hierarchical},
      {"hierarchical_gradients", ring(hierarchical)},
      {"replicas_of_shards", levels({level("node", "all_reduce"), level("across", "sharded")})},
      {"sharded_twice", levels({level("node", "sharded"), level("across", "sharded", "ring")})},
      {"all_reduced_twice", levels({level("node", "all_reduce"), level("across", "all_reduce")})},
      {"sharded_parameters", levels({in_parts(level("data", "sharded"))})},
      {"sharded_everything", micro_batched(ring(levels({in_parts(level("data", "sharded"), 0)})))},
      {"hierarchical_parameters",
       ring(levels({in_parts(level("node", "sharded"), 0), level("across", "all_reduce")}))},
      {"parameters_sharded_twice",
       levels({in_parts(level("node", "sharded")), in_parts(level("across", "sharded", "ring"))})},
      {"factors", as_factors},
      {"factors_in_nodes", levels({factors(level("node", "all_reduce")), level("across", "sharded")})},
      {"micro_batched_factors", micro_batched(as_factors)},
      {"delayed_factors", delayed(as_factors), true},
      {"delayed", delayed(replicated), true},
      {"delayed_sharded", delayed(sharded), true},
  };
}

/// Ways to combine gradients that are no mean, so that more ranks are another trajectory. For worlds of 2^k
/// ranks.
inline std::vector<Mode> combinations() {
  return {{"adasum", [](plan::Plan& plan) { plan.exchange.levels = {level("data", "adasum")}; }},
          {"adasum_across", [](plan::Plan& plan) {
             plan.exchange.levels = {level("node", "sharded"), level("across", "adasum")};
             plan.mesh.node = 2;
           }}};
}

inline plan::LevelPlan meets(std::string rule, int period, std::string topology = "all_reduce") {
  plan::LevelPlan level;
  level.topology = std::move(topology);
  level.rule = std::move(rule);
  level.period = period;
  return level;
}

/// Ways in which replicas train apart and meet, for any number of ranks.
inline std::vector<Mode> meetings() {
  plan::LevelPlan diloco = meets("outer_nesterov", 6);
  diloco.momentum = 0.9;
  diloco.rate = 0.7;
  plan::LevelPlan streaming = diloco;
  streaming.fragments = 3;
  streaming.delay = 1;
  streaming.mixing = 0.5;
  plan::LevelPlan bmuf = meets("block_nesterov", 4, "sharded");
  bmuf.momentum = 0.75;
  bmuf.inner_state = plan::InnerState::Reset;
  plan::LevelPlan elastic = meets("elastic", 3);
  elastic.rate = 0.9;
  plan::LevelPlan sharded_elastic = meets("elastic", 3, "sharded");
  sharded_elastic.rate = 0.9;
  plan::LevelPlan ring = meets("average", 1, "gossip");
  ring.graph = "ring";
  plan::LevelPlan random = meets("average", 2, "gossip");
  random.graph = "random";
  random.delay = 1;
  random.inner_state = plan::InnerState::Keep;
  plan::LevelPlan exponential = meets("average", 1, "gossip");
  exponential.inner_state = plan::InnerState::Average;
  plan::LevelPlan significant = meets("average", 1, "significant");
  significant.options.set("significance", 0.05);
  plan::LevelPlan served;
  served.topology = "servers";
  plan::LevelPlan served_blocks = meets("block_nesterov", 4, "servers");
  served_blocks.momentum = 0.5;
  auto by = [](plan::LevelPlan level) {
    return [level](plan::Plan& plan) { plan.exchange.levels = {level}; };
  };
  return {{"local", by(meets("average", 5))},
          {"diloco", by(diloco)},
          {"streaming", by(streaming)},
          {"bmuf", by(bmuf)},
          {"elastic", by(elastic)},
          {"sharded_elastic", by(sharded_elastic)},
          {"ring", by(ring)},
          {"random", by(random)},
          {"exponential", by(exponential)},
          {"significant", by(significant)},
          {"servers", by(served)},
          {"served_blocks", by(served_blocks)}};
}

}  // namespace taxon::test
