#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/broken.h"
#include "plan/consistency.h"
#include "plan/options.h"
#include "plan/plan.h"

namespace taxon::plan {

struct LegalityInput;

/// What makes no sense with a row that a plan names; it stands with the row.
struct PlanRule {
  std::string_view key;
  std::string_view sentence;  // what must hold
  /// Nothing when it holds; otherwise what the plan says instead.
  Violation (*broken)(const LegalityInput&);
};
/// The same for a row that a level names.
struct LevelRule {
  std::string_view key;
  std::string_view sentence;
  Violation (*broken)(const LegalityInput&, const LevelPlan&);
};

/// Where the sum of what a level's members contribute lies.
enum class SumAt {
  Nowhere,   // they combine in another way
  Everyone,  // all have all of it
  Parts,     // each has its part
  Servers    // those that serve have parts
};

/// What a plan may name: the rows of all tables, described. A list that is empty is one that nobody could
/// ask; reading accepts any name there.
struct Catalogue {
  struct Topology {
    std::string name;
    std::vector<std::string> collectives = {};  // that serve all its parts
    SumAt sum = SumAt::Nowhere;
    bool has_graph = false;         // the level's graph says who talks to whom
    std::string optimisation = {};  // its point on that axis; empty: its name
    std::string scheduling = {};    // of replicas that mix there; empty: as replicas meet elsewhere
    std::string sentence = {};
    std::vector<OptionKey> options = {};
    std::span<const LevelRule> rules = {};
    std::optional<int> (*gathered_ahead)(const LevelPlan&) = nullptr;  // as its row's; null: none
  };
  struct Graph {
    std::string name;
    bool balanced = false;  // members' weights stay equal
  };
  struct Outer {
    std::string name;
    std::string replicas = {};  // what becomes of them: its point on the axis of optimisation
    bool keeps_centre = true;
    std::string sentence = {};
    std::vector<OptionKey> options = {};
    std::span<const LevelRule> rules = {};
  };
  struct Consistency {
    std::string name;
    ConsistencyBounds (*bounds)(const LevelPlan&) = nullptr;  // null: those of workers in step
    std::string sentence = {};
    std::vector<OptionKey> options = {};
    std::span<const LevelRule> rules = {};
  };
  struct Late {
    std::string name;
    bool gradients = true, weights = true;  // what it can correct
    bool keeps_served = false;              // it needs what each worker was served last
    std::string scheduling = {};            // its words on that axis; empty: none
    std::string sentence = {};
    std::vector<OptionKey> options = {};
    std::span<const LevelRule> rules = {};
  };
  struct Codec {
    std::string name;
    bool biased = false;         // needs a memory of errors
    bool sends_entries = false;  // momentum can be masked
    bool votes = false;          // has no errors to remember
    bool linear = false;         // an all-reduce sums its wires
    bool stands_alone = true;    // whoever has one member's wire of a part can decode it
    bool asks = false;           // it needs a second round, which servers can hold
    std::string sentence = {}, bytes = {}, source = {};  // see codec/codec.h
    std::string algebra = {};                            // how wires of several members become one
    std::vector<OptionKey> options = {};
    std::span<const LevelRule> rules = {};
  };
  struct Rule {
    std::string name;
    std::string sentence = {};
    bool is_linear = false;     // an update is the gradient times a number, and nothing else is kept
    bool has_momentum = false;  // optimiser.momentum counts
    bool by_tensor = false;     // it needs whole tensors, for their norms
    std::vector<OptionKey> options = {};
    std::span<const PlanRule> rules = {};
  };
  struct Schedule {
    std::string name;
    std::string sentence = {};
    bool knows_the_end = false;  // its rates depend on how long the run is
    std::vector<OptionKey> options = {};
    std::span<const PlanRule> rules = {};
  };
  struct Pipeline {
    std::string name;
    std::string sentence = {};
    bool flushes = true;                     // one update of all micro-batches: the algorithm of one process
    std::string scheduling = "synchronous";  // its words on the axis
    std::vector<OptionKey> options = {};
    /// What it can't be with so many ranks and micro-batches, one sentence each.
    std::function<std::vector<std::string>(int ranks, int micros, const Options&)> problems = {};
    std::span<const PlanRule> rules = {};
  };
  struct Model {
    std::string name;
    std::string sentence = {};
    bool takes_tokens = false;
    std::vector<OptionKey> options = {};
    std::span<const PlanRule> rules = {};
  };
  struct Task {
    std::string name;
    std::string sentence = {};
    std::vector<OptionKey> options = {};
  };
  struct Dataset {
    std::string name;
    std::string sentence = {};
    std::vector<OptionKey> options = {};
    std::span<const PlanRule> rules = {};
    bool gives_tokens = false;
  };
  struct Transform {
    std::string name;
    std::string sentence = {};
    std::vector<OptionKey> options = {};
  };
  std::vector<Model> models;
  /// A plan may name models that `models` lacks, with whatever keys: a profile may stand for them.
  bool may_lack_models = false;
  std::vector<Task> tasks;
  std::vector<Dataset> datasets;
  std::vector<std::string> transports, splits;
  std::vector<Graph> graphs;
  std::vector<Transform> transforms;
  std::vector<Schedule> schedules;
  std::vector<Pipeline> pipelines;
  std::vector<Rule> rules;
  std::vector<Topology> topologies;
  std::vector<Outer> outer_rules;
  std::vector<Consistency> consistencies;
  std::vector<Late> lates;
  std::vector<Codec> codecs;

  // Null for a name that no row has.
  const Rule* find_rule(std::string_view name) const;
  const Schedule* find_schedule(std::string_view name) const;
  const Pipeline* find_pipeline(std::string_view name) const;
  const Model* find_model(std::string_view name) const;
  const Task* find_task(std::string_view name) const;
  const Dataset* find_dataset(std::string_view name) const;
  const Transform* find_transform(std::string_view name) const;
  const Topology* find_topology(std::string_view name) const;
  const Graph* find_graph(std::string_view name) const;
  const Outer* find_outer(std::string_view name) const;
  const Consistency* find_consistency(std::string_view name) const;
  const Late* find_late(std::string_view name) const;
  const Codec* find_codec(std::string_view name) const;

  /// Of the level's topology.
  SumAt sum_at(const LevelPlan& level) const;
  /// Whether ranks keep their parts of the parameters alone. False for values that its keys don't allow.
  bool shards_parameters(const LevelPlan& level) const;
  /// Of servers; those of workers in step for a name that no row has, or values that its keys don't allow.
  ConsistencyBounds bounds_of(const LevelPlan& level) const;
};

/// Names of rows, in their order.
template <class Row>
std::vector<std::string> names_of(const std::vector<Row>& rows) {
  std::vector<std::string> names;
  for (const Row& row : rows) names.push_back(row.name);
  return names;
}

/// The keys that a section may have beside those that all have: those of the rows that it names.
std::vector<OptionKey> own_keys(const CodecPlan& codec, const Catalogue& catalogue);
std::vector<OptionKey> own_keys(const LevelPlan& level, const Catalogue& catalogue);
std::vector<OptionKey> own_keys(const ModelPlan& model, const Catalogue& catalogue);
std::vector<OptionKey> own_keys(const TaskPlan& task, const Catalogue& catalogue);
std::vector<OptionKey> own_keys(const OptimiserPlan& optimiser, const Catalogue& catalogue);
std::vector<OptionKey> own_keys(const RatePlan& rate, const Catalogue& catalogue);
std::vector<OptionKey> own_keys(const PipelinePlan& pipeline, const Catalogue& catalogue);
/// Those of a level, for messages: "topology servers with rule sum and consistency clocks".
std::string named_rows(const LevelPlan& level, const Catalogue& catalogue);
std::vector<OptionKey> own_keys(const DataPlan& data, const Catalogue& catalogue);
std::vector<OptionKey> own_keys(const TransformPlan& transform, const Catalogue& catalogue);

}  // namespace taxon::plan
