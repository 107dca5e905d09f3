#include "plan/legality.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "plan/legality_codecs.h"
#include "plan/legality_factors.h"
#include "plan/legality_rows.h"
#include "plan/mesh.h"
#include "plan/model_file.h"

namespace taxon::plan {

Violation any_level(const LegalityInput& c, Violation (*broken)(const LegalityInput&, const LevelPlan&)) {
  for (const LevelPlan& level : c.plan.exchange.levels)
    if (auto said = broken(c, level)) return said;
  return {};
}

namespace {

int given(std::initializer_list<bool> keys) {
  return static_cast<int>(std::count(keys.begin(), keys.end(), true));
}

bool usable_as_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos;
}

Violation model_known(const LegalityInput& c) {
  // Files are opened before the run, and the row above complains where nothing is given.
  if (c.plan.model.name.empty() || is_model_file(c.plan.model.name)) return {};
  if (c.known.may_lack_models) return {};
  return known_name(c.plan.model.name, names_of(c.known.models));
}

Violation model_fits_data(const LegalityInput& c) {
  const Catalogue::Model* model = c.known.find_model(c.plan.model.name);
  const Catalogue::Dataset* data = c.known.find_dataset(c.plan.data.dataset);
  if (!model || !data || model->takes_tokens == data->gives_tokens) return {};
  auto what = [](bool tokens) { return tokens ? "tokens" : "numbers"; };
  return fmt::format("{} takes {}, and data set {} gives {}", model->name, what(model->takes_tokens),
                     data->name, what(data->gives_tokens));
}

Violation task_known(const LegalityInput& c) {
  return known_name(c.plan.task.name, names_of(c.known.tasks), "auto");
}

Violation batch_given(const LegalityInput& c) {
  const BatchPlan& batch = c.plan.batch;
  int count = given({batch.global > 0, batch.per_worker > 0});
  return unless(count == 1, count == 0 ? "neither is" : "both are");
}

Violation micro_batches_fit(const LegalityInput& c) {
  if (batch_given(c)) return {};
  const std::int64_t share = largest_share(c.plan, c.world_size);
  return unless(
      c.plan.batch.micro_batches <= share,
      fmt::format("it is {}, and a worker's share is {} sample(s)", c.plan.batch.micro_batches, share));
}

Violation length_given(const LegalityInput& c) {
  const LengthPlan& length = c.plan.length;
  int count = given({length.epochs > 0, length.steps > 0, length.samples > 0});
  return unless(count == 1, count == 0 ? "none is" : fmt::format("{} are", count));
}

Violation master_fits(const LegalityInput& c) {
  DType compute = c.plan.precision.compute, master = c.plan.precision.master;
  bool fits = master == (compute == DType::Float64 ? DType::Float64 : DType::Float32);
  return unless(fits, fmt::format("compute is {}, master is {}", to_string(compute), to_string(master)));
}

Violation tensors_whole(const LegalityInput& c) {
  const Catalogue::Rule* rule = c.known.find_rule(c.plan.optimiser.rule);
  if (!rule || !rule->by_tensor) return {};
  if (c.plan.mesh.tensor > 1)
    return fmt::format("it is {}, mesh.tensor is {}", rule->name, c.plan.mesh.tensor);
  for (const LevelPlan& level : c.plan.exchange.levels)
    if (is_sharded(c, level) || (has_servers(c, level) && !has_rule(level)))
      return fmt::format("it is {}, topology is {}", rule->name, level.topology);
  return {};
}

Violation warmup_ends(const LegalityInput& c) {
  std::int64_t samples = c.plan.length.samples, warmup = c.plan.learning_rate.warmup_samples;
  return unless(samples == 0 || warmup <= samples,
                fmt::format("it is {}, and length.samples is {}", warmup, samples));
}

Violation mesh_fits(const LegalityInput& c) {
  const MeshPlan& mesh = c.plan.mesh;
  const int ranks = c.world_size - mesh.servers, replica = ranks_of_replica(mesh);
  const std::string there =
      fmt::format("{} worker(s), pipeline is {}, tensor is {}", ranks, mesh.pipeline, mesh.tensor);
  if (ranks % replica != 0) return "there are " + there;
  return unless(mesh.data == 0 || mesh.data == ranks / replica,
                fmt::format("it is {}, and there are {}", mesh.data, there));
}

Violation replicas_divide(const LegalityInput& c) {
  if (ranks_of_replica(c.plan.mesh) == 1) return {};
  if (c.plan.mesh.servers > 0) return fmt::format("mesh.servers is {}", c.plan.mesh.servers);
  if (c.plan.exchange.delay > 0) return fmt::format("exchange.delay is {}", c.plan.exchange.delay);
  if (c.plan.exchange.gradients != GradientMemory::Whole)
    return fmt::format("exchange.gradients is {}", to_string(c.plan.exchange.gradients));
  for (const LevelPlan& level : c.plan.exchange.levels) {
    if (level.group != LevelGroup::Data) return fmt::format("a level is over {}", to_string(level.group));
    if (level.rule != "sum") return fmt::format("replicas meet by rule {}", level.rule);
    if (level.factors != FactorUse::None) return fmt::format("factors is {}", to_string(level.factors));
    const SumAt sum = c.known.sum_at(level);
    if (sum != SumAt::Everyone && sum != SumAt::Parts) return "topology is " + level.topology;
  }
  return {};
}

Violation pipelines_known(const LegalityInput& c) {
  return known_name(c.plan.pipeline.schedule, names_of(c.known.pipelines));
}

Violation pipeline_scheduled(const LegalityInput& c) {
  if (c.plan.mesh.pipeline == 1) return {};
  const Catalogue::Pipeline* row = c.known.find_pipeline(c.plan.pipeline.schedule);
  if (!row) return {};
  const auto problems =
      row->problems(c.plan.mesh.pipeline, c.plan.batch.micro_batches, c.plan.pipeline.options);
  return unless(problems.empty(), fmt::format("{}", fmt::join(problems, "; ")));
}

/// Where there are stages and each updates its weights by itself, in the midst of a step.
Violation stages_update_alone(const LegalityInput& c) {
  const Catalogue::Pipeline* row = c.known.find_pipeline(c.plan.pipeline.schedule);
  if (!row || row->flushes) return {};
  if (c.plan.mesh.pipeline == 1) return fmt::format("it is {}, and mesh.pipeline is 1", row->name);
  if (c.plan.optimiser.clip_norm > 0)
    return fmt::format("it is {}, and optimiser.clip_norm is {}", row->name, c.plan.optimiser.clip_norm);
  return unless(c.plan.on_divergence != OnDivergence::Skip,
                fmt::format("it is {}, and on_divergence is skip", row->name));
}

Violation activations_of_parts(const LegalityInput& c) {
  return unless(c.plan.pipeline.activations == Activations::Kept || ranks_of_replica(c.plan.mesh) > 1,
                "both are 1");
}

Violation splits_fit(const LegalityInput& c) {
  for (const std::string& split : c.plan.mesh.splits) {
    const std::size_t sign = split.find('=');
    if (split == kChosenSplits) continue;
    if (sign == std::string::npos || sign == 0 || sign + 1 == split.size())
      return fmt::format("it has \"{}\"", split);
    if (auto broken = known_name(split.substr(sign + 1), c.known.splits))
      return fmt::format("{}: {}", split.substr(0, sign), *broken);
  }
  return unless(c.plan.mesh.splits.empty() || c.plan.mesh.tensor > 1,
                fmt::format("it has {} layer(s), and mesh.tensor is 1", c.plan.mesh.splits.size()));
}

Violation cut_fits(const LegalityInput& c) {
  return unless(c.plan.pipeline.cut.empty() || c.plan.mesh.pipeline > 1,
                fmt::format("it has {} segment(s), and mesh.pipeline is 1", c.plan.pipeline.cut.size()));
}

Violation servers_serve(const LegalityInput& c) {
  const int servers = c.plan.mesh.servers;
  if (servers == 0) return {};
  if (!any_servers(c)) return "no level has topology servers";
  return unless(servers < c.world_size, fmt::format("it is {} of {} rank(s)", servers, c.world_size));
}

Violation topologies_known(const LegalityInput& c) {
  for (const LevelPlan& level : c.plan.exchange.levels)
    if (auto broken = known_name(level.topology, names_of(c.known.topologies))) return broken;
  return {};
}

Violation collectives_known(const LegalityInput& c) {
  for (const LevelPlan& level : c.plan.exchange.levels) {
    const Catalogue::Topology* topology = c.known.find_topology(level.topology);
    if (!topology || level.collective == "auto") continue;
    if (topology->collectives.empty())
      return fmt::format("it is \"{}\", and no collective serves {}", level.collective, level.topology);
    if (auto broken = known_name(level.collective, topology->collectives, "auto")) return broken;
  }
  return {};
}

Violation slow_ranks_there(const LegalityInput& c) {
  for (const SlowdownPlan& slow : c.plan.emulation.slow)
    if (slow.rank >= c.world_size)
      return fmt::format("it is {}, and there are ranks 0 to {}", slow.rank, c.world_size - 1);
  return {};
}

Violation node_fits(const LegalityInput& c) {
  int node = c.plan.mesh.node;
  return unless(node == 0 || c.world_size % node == 0,
                fmt::format("it is {}, and there are {} worker(s)", node, c.world_size));
}

Violation levels_nest(const LegalityInput& c) {
  using enum LevelGroup;
  std::vector<LevelGroup> groups;
  for (const LevelPlan& level : c.plan.exchange.levels) groups.push_back(level.group);
  const bool fits = groups == std::vector{Data} || groups == std::vector{Node, Across};
  return unless(fits, fmt::format("they are [{}]", fmt::join(groups, ", ")));
}

Violation outer_rules_known(const LegalityInput& c) {
  for (const LevelPlan& level : c.plan.exchange.levels)
    if (auto broken = known_name(level.rule, names_of(c.known.outer_rules), "sum")) return broken;
  return {};
}

Violation graphs_known(const LegalityInput& c) {
  for (const LevelPlan& level : c.plan.exchange.levels)
    if (auto broken = known_name(level.graph, names_of(c.known.graphs))) return broken;
  return {};
}

Violation rule_last(const LegalityInput& c) {
  const auto& levels = c.plan.exchange.levels;
  for (std::size_t l = 0; l + 1 < levels.size(); ++l)
    if (has_rule(levels[l])) return fmt::format("level {} has {}", l, levels[l].rule);
  return {};
}

Violation meeting_keys_used(const LegalityInput&, const LevelPlan& level) {
  const LevelPlan plain{.group = level.group,
                        .topology = level.topology,
                        .collective = level.collective,
                        .graph = level.graph,
                        .consistency = level.consistency,
                        .late = level.late,
                        .factors = level.factors,
                        .codec = level.codec,
                        .options = level.options};
  return unless(has_rule(level) || level == plain,
                "rule is sum; give a rule, or take the other keys of meetings away");
}

Violation delay_within_period(const LegalityInput&, const LevelPlan& level) {
  int between = level.period / level.fragments;
  return unless(level.delay == 0 || level.delay < between,
                fmt::format("delay is {}, and something meets every {} step(s)", level.delay, between));
}

Violation fragments_divide(const LegalityInput&, const LevelPlan& level) {
  return unless(level.period % level.fragments == 0,
                fmt::format("period is {}, fragments is {}", level.period, level.fragments));
}

Violation state_at_once(const LegalityInput&, const LevelPlan& level) {
  return unless(level.inner_state != InnerState::Average || level.delay == 0,
                fmt::format("delay is {}", level.delay));
}

Violation state_unserved(const LegalityInput& c, const LevelPlan& level) {
  return unless(level.inner_state != InnerState::Average || !has_servers(c, level),
                fmt::format("topology is {}", level.topology));
}

Violation split_there(const LegalityInput& c) {
  const DataPlan& data = c.plan.data;
  return unless(c.plan.evaluation.split != Split::Validation || data.validation > 0 ||
                    data.validation_share > 0 || !data.validation_path.empty(),
                "there is none");
}

Violation split_once(const LegalityInput& c) {
  const DataPlan& data = c.plan.data;
  const int given = (data.validation > 0 ? 1 : 0) + (data.validation_share > 0 ? 1 : 0) +
                    (data.validation_path.empty() ? 0 : 1);
  return unless(given <= 1, fmt::format("{} are", given));
}

Violation transforms_known(const LegalityInput& c) {
  for (const TransformPlan& transform : c.plan.data.transforms)
    if (const Violation unknown = known_name(transform.name, names_of(c.known.transforms))) return unknown;
  return {};
}

Violation some_left(const LegalityInput& c) {
  const DataPlan& data = c.plan.data;
  return unless(data.train_limit == 0 || data.validation < data.train_limit,
                fmt::format("it is {} of {}", data.validation, data.train_limit));
}

Violation norm_known(const LegalityInput& c) {
  const auto& levels = c.plan.exchange.levels;
  return unless(c.plan.optimiser.clip_norm == 0 ||
                    std::none_of(levels.begin(), levels.end(),
                                 [&](const LevelPlan& l) { return has_servers(c, l) && !has_rule(l); }),
                fmt::format("clip_norm is {}", c.plan.optimiser.clip_norm));
}

Violation served_undelayed(const LegalityInput& c) {
  return unless(c.plan.exchange.delay == 0 || !any_servers(c),
                fmt::format("delay is {}", c.plan.exchange.delay));
}

Violation meets_undelayed(const LegalityInput& c) {
  bool meets = std::any_of(c.plan.exchange.levels.begin(), c.plan.exchange.levels.end(), has_rule);
  return unless(!meets || c.plan.exchange.delay == 0, fmt::format("delay is {}", c.plan.exchange.delay));
}

Violation ring_owned(const LegalityInput& c) {
  const ExchangePlan& exchange = c.plan.exchange;
  if (exchange.gradients != GradientMemory::Ring) return {};
  return unless(std::any_of(exchange.levels.begin(), exchange.levels.end(),
                            [&](const LevelPlan& level) { return is_sharded(c, level); }),
                "none is");
}

// By priority, ranks may spend their credits on different buckets, each of which waits for memory that the
// other's hold.
Violation ring_in_order(const LegalityInput& c) {
  const ExchangePlan& exchange = c.plan.exchange;
  return unless(exchange.gradients != GradientMemory::Ring || exchange.order == BucketOrder::Backward,
                fmt::format("order is {}", exchange.order));
}

Violation ring_once(const LegalityInput& c) {
  const auto& levels = c.plan.exchange.levels;
  const bool by_segments = std::any_of(
      levels.begin(), levels.end(), [&](const LevelPlan& level) { return c.known.shards_parameters(level); });
  return unless(
      c.plan.exchange.gradients != GradientMemory::Ring || c.plan.batch.micro_batches == 1 || by_segments,
      fmt::format("batch.micro_batches is {}", c.plan.batch.micro_batches));
}

Violation ring_at_once(const LegalityInput& c) {
  return unless(c.plan.exchange.gradients != GradientMemory::Ring || c.plan.exchange.delay == 0,
                fmt::format("delay is {}", c.plan.exchange.delay));
}

Violation skips_whole(const LegalityInput& c) {
  return unless(
      c.plan.on_divergence != OnDivergence::Skip || c.plan.exchange.gradients == GradientMemory::Whole,
      fmt::format("it is {}", c.plan.exchange.gradients));
}

Violation reports_in_time(const LegalityInput& c) {
  const ControlPlan& control = c.plan.control;
  return unless(control.deadline_seconds >= std::max(control.silence_seconds, control.hang_seconds),
                fmt::format("it is {}, and they are {} and {}", control.deadline_seconds,
                            control.silence_seconds, control.hang_seconds));
}

Violation frozen_named(const LegalityInput& c) {
  const auto& frozen = c.plan.model.frozen;
  return unless(std::find(frozen.begin(), frozen.end(), "") == frozen.end(), "one is empty");
}

using enum LegalityRow::About;

constexpr LegalityRow kRows[] = {
    {"name", "must be usable as the name of a folder",
     [](const LegalityInput& c) {
       return unless(usable_as_file_name(c.plan.name), "it is \"" + c.plan.name + "\"");
     }},
    {"model", "exactly one of model.name and model.torchscript must be given",
     [](const LegalityInput& c) {
       return unless(c.plan.model.name.empty() != c.plan.model.torchscript.empty(),
                     c.plan.model.name.empty() ? "neither is" : "both are");
     }},
    {"model.name", "must name a model", model_known, Name},
    {"model.name", "must take what the data set gives", model_fits_data},
    {"task.name", "must be auto or name a task", task_known, Name},
    {"model.frozen", "must list names of parameters", frozen_named},
    {"data.dataset", "must name a kind of data set",
     [](const LegalityInput& c) { return known_name(c.plan.data.dataset, names_of(c.known.datasets)); },
     Name},
    {"data.transforms", "must name transforms", transforms_known, Name},
    {"data.validation", "must leave samples to train on", some_left},
    {"data.validation",
     "at most one of data.validation, data.validation_share and data.validation_path may be given",
     split_once},
    {"evaluation.split",
     "validation needs data.validation or data.validation_share above 0, or data.validation_path",
     split_there},
    {"batch", "exactly one of batch.global and batch.per_worker must be given, above 0", batch_given},
    {"batch.micro_batches", "must not exceed a worker's share of the batch", micro_batches_fit},
    {"precision", "master must be float64 for compute float64, and float32 otherwise", master_fits},
    {"optimiser.rule", "must name an update rule",
     [](const LegalityInput& c) { return known_name(c.plan.optimiser.rule, names_of(c.known.rules)); }, Name},
    {"learning_rate.schedule", "must name a schedule",
     [](const LegalityInput& c) {
       return known_name(c.plan.learning_rate.schedule, names_of(c.known.schedules));
     },
     Name},
    {"learning_rate.warmup_samples", "must end within the run", warmup_ends},
    {"length", "exactly one of length.epochs, length.steps and length.samples must be given, above 0",
     length_given},
    {"mesh.data",
     "must be 0, or make the number of workers with mesh.pipeline and mesh.tensor, which must divide it",
     mesh_fits},
    {"mesh.pipeline",
     "and mesh.tensor above 1 need a synchronous exchange of gradients over data alone, with sums, without "
     "delay, ring, factors and servers",
     replicas_divide},
    {"pipeline.schedule", "must name a schedule of pipelines", pipelines_known, Name},
    {"pipeline.schedule", "must fit mesh.pipeline and batch.micro_batches", pipeline_scheduled},
    {"pipeline.schedule",
     "by which stages update their weights between micro-batches needs mesh.pipeline above 1, "
     "optimiser.clip_norm 0 and on_divergence other than skip, since nobody has the whole model's gradient",
     stages_update_alone},
    {"pipeline.activations", "recomputed needs mesh.pipeline or mesh.tensor above 1", activations_of_parts},
    {"pipeline.cut", "needs mesh.pipeline above 1", cut_fits},
    {"mesh.splits", "must be LAYER=ROW or auto each, of a row that is known, and needs mesh.tensor above 1",
     splits_fit},
    {"mesh.node", "must be 0 or divide the number of workers", node_fits},
    {"exchange.levels", "must be one level over data, or one over node and then one over across",
     levels_nest},
    {"exchange.levels", "topology must name a topology", topologies_known, Name},
    {"exchange.levels", "collective must be auto or name one that serves the topology", collectives_known,
     Name},
    {"exchange.levels", "rule must be sum or name an outer rule", outer_rules_known, Name},
    {"exchange.levels", "graph must name a graph of gossip", graphs_known, Name},
    {"exchange.levels", "a rule other than sum belongs to the last level, where replicas meet", rule_last},
    {"exchange.levels", "a period and what else describes meetings needs a rule other than sum",
     [](const LegalityInput& c) { return any_level(c, meeting_keys_used); }},
    {"exchange.levels", "fragments must divide the period",
     [](const LegalityInput& c) { return any_level(c, fragments_divide); }},
    {"exchange.levels",
     "delay must be shorter than period / fragments, so that one meeting ends before the next",
     [](const LegalityInput& c) { return any_level(c, delay_within_period); }},
    {"exchange.levels", "inner_state average needs delay 0",
     [](const LegalityInput& c) { return any_level(c, state_at_once); }},
    {"exchange.levels", "inner_state average needs a topology other than servers, which have weights alone",
     [](const LegalityInput& c) { return any_level(c, state_unserved); }},
    {"mesh.servers", "needs a level that they serve, and ranks that work", servers_serve},
    {"exchange.levels",
     "topology servers must be the only level, or lie across nodes whose level is sharded, with rule sum, "
     "a consistency without a quorum and mesh.servers 0",
     servers_placed},
    {"exchange.levels", "topology servers needs a rule that keeps a centre",
     [](const LegalityInput& c) { return any_level(c, servers_keep_a_centre); }},
    {"exchange.levels", "consistency must name when workers of servers may go on", consistencies_known, Name},
    {"exchange.levels", "consistency and late belong to topology servers",
     [](const LegalityInput& c) { return any_level(c, consistency_used); }},
    {"exchange.levels",
     "replicas that meet at servers need a consistency by which nobody goes on before an update took in what "
     "it handed in (clocks: staleness 0 or apply 1), since each gets its own answer",
     [](const LegalityInput& c) { return any_level(c, replicas_answered_alone); }},
    {"exchange.levels", "late must name what becomes of late contributions", lates_known, Name},
    {"exchange.levels", "late must fit what is handed in: gradients with rule sum, otherwise weights",
     [](const LegalityInput& c) { return any_level(c, late_corrects); }},
    {"exchange.levels",
     "late needs such a consistency too (clocks: staleness 0 or apply 1) where servers correct by what each "
     "worker was served last",
     [](const LegalityInput& c) { return any_level(c, late_as_served); }},
    {"optimiser.rule",
     "that needs norms of whole tensors needs whole sums: no topology sharded or servers with rule sum, and "
     "mesh.tensor 1",
     tensors_whole},
    {"optimiser.clip_norm",
     "must be 0 with topology servers and rule sum, since no server sees the whole gradient", norm_known},
    {"exchange.delay", "must be 0 with topology servers, whose consistency says how late gradients may be",
     served_undelayed},
    {"exchange.delay", "replicas that meet have a delay of their own, that of their level", meets_undelayed},
    {"exchange.gradients", "ring needs a level whose topology is sharded", ring_owned},
    {"exchange.gradients", "ring needs order: backward", ring_in_order},
    {"exchange.gradients",
     "ring needs batch.micro_batches: 1, since sums of micro-batches need whole memory, unless parameters "
     "are "
     "sharded and all micro-batches pass a segment before the next one",
     ring_once},
    {"exchange.gradients", "ring and a delay above 0 exclude each other", ring_at_once},
    {"on_divergence",
     "skip needs exchange.gradients: whole, since a ring has no room for gradients that wait", skips_whole},
    {"transport.kind", "must be auto or name a transport",
     [](const LegalityInput& c) { return known_name(c.plan.transport.kind, c.known.transports, "auto"); },
     Name},
    {"emulation.slow", "rank must be one of the run's, or -1 for all", slow_ranks_there},
    {"control.deadline_seconds", "must not be shorter than silence_seconds and hang_seconds",
     reports_in_time},
};

}  // namespace

std::span<const LegalityRow> legality_table() {
  static const std::vector<LegalityRow> kAll = [] {
    std::vector<LegalityRow> all(std::begin(kRows), std::end(kRows));
    for (const auto rows : {factor_legality(), codec_legality()})
      all.insert(all.end(), rows.begin(), rows.end());
    return all;
  }();
  return kAll;
}

namespace {

void add(std::vector<Problem>& problems, std::string_view key, std::string_view sentence,
         const Violation& instead) {
  if (instead) problems.push_back({std::string(key), fmt::format("{}: {}", sentence, *instead)});
}

/// What the row that a section of the plan names says of it itself.
template <class Row>
void check_row(const LegalityInput& c, const Row* row, std::vector<Problem>& problems) {
  if (row)
    for (const PlanRule& rule : row->rules) add(problems, rule.key, rule.sentence, rule.broken(c));
}

/// The same of the rows that a level names.
void check_rows(const LegalityInput& c, const LevelPlan& level, std::vector<Problem>& problems) {
  auto ask = [&](const auto* row) {
    if (row)
      for (const LevelRule& rule : row->rules) add(problems, rule.key, rule.sentence, rule.broken(c, level));
  };
  ask(c.known.find_topology(level.topology));
  ask(c.known.find_outer(level.rule));
  if (has_servers(c, level)) ask(c.known.find_consistency(level.consistency));
  ask(c.known.find_late(level.late));
  ask(c.known.find_codec(level.codec.candidate()));
  if (level.codec.answer != level.codec.candidate()) ask(c.known.find_codec(level.codec.answer));
}

/// Of a plan that no reader has checked.
void check_options(const Options& options, const std::vector<OptionKey>& keys, const std::string& prefix,
                   const std::string& named, std::vector<Problem>& problems) {
  for (const auto& [key, text] : options.given()) {
    const auto row = std::find_if(keys.begin(), keys.end(), [&](const OptionKey& k) { return k.key == key; });
    if (row == keys.end())
      problems.push_back({prefix + key, fmt::format("{} has no such key", named)});
    else if (!row->canonical(text))
      problems.push_back({prefix + key, fmt::format("must be {}: it is \"{}\"", row->allowed, text)});
  }
}

}  // namespace

std::vector<Problem> check_names(const Plan& plan, const Catalogue& catalogue) {
  const LegalityInput c{plan, 1, catalogue};
  std::vector<Problem> problems;
  for (const LegalityRow& row : legality_table())
    if (row.about == LegalityRow::About::Name) add(problems, row.key, row.sentence, row.broken(c));
  return problems;
}

std::vector<Problem> check_plan(const Plan& plan, int world_size, const Catalogue& known) {
  const LegalityInput c{plan, world_size, known};
  std::vector<Problem> problems;
  for (const LegalityRow& row : legality_table()) add(problems, row.key, row.sentence, row.broken(c));
  // Rules of rows read the options.
  const std::size_t named = problems.size();
  if (!known.models.empty() && (!known.may_lack_models || known.find_model(plan.model.name)))
    check_options(plan.model.options, own_keys(plan.model, known), "model.", "model " + plan.model.name,
                  problems);
  if (!known.tasks.empty())
    check_options(plan.task.options, own_keys(plan.task, known), "task.", "task " + plan.task.name, problems);
  if (!known.rules.empty())
    check_options(plan.optimiser.options, own_keys(plan.optimiser, known), "optimiser.",
                  "rule " + plan.optimiser.rule, problems);
  if (!known.schedules.empty())
    check_options(plan.learning_rate.options, own_keys(plan.learning_rate, known), "learning_rate.",
                  "schedule " + plan.learning_rate.schedule, problems);
  if (!known.pipelines.empty())
    check_options(plan.pipeline.options, own_keys(plan.pipeline, known), "pipeline.",
                  "schedule " + plan.pipeline.schedule, problems);
  if (!known.datasets.empty())
    check_options(plan.data.options, own_keys(plan.data, known), "data.", "data set " + plan.data.dataset,
                  problems);
  if (!known.transforms.empty())
    for (const TransformPlan& transform : plan.data.transforms)
      check_options(transform.options, own_keys(transform, known), "data.transforms.",
                    "transform " + transform.name, problems);
  if (problems.size() == named) {
    check_row(c, known.find_model(plan.model.name), problems);
    check_row(c, known.find_dataset(plan.data.dataset), problems);
    check_row(c, known.find_rule(plan.optimiser.rule), problems);
    check_row(c, known.find_schedule(plan.learning_rate.schedule), problems);
    check_row(c, known.find_pipeline(plan.pipeline.schedule), problems);
  }
  for (const LevelPlan& level : plan.exchange.levels) {
    const std::size_t before = problems.size();
    if (!known.topologies.empty())
      check_options(level.options, own_keys(level, known), "exchange.levels.", named_rows(level, known),
                    problems);
    if (!known.codecs.empty())
      check_options(level.codec.options, own_keys(level.codec, known), "exchange.levels.codec.",
                    "codec " + level.codec.candidate(), problems);
    if (problems.size() == before) check_rows(c, level, problems);
  }
  return problems;
}

void require_legal(const std::vector<Problem>& problems) {
  if (problems.empty()) return;
  std::vector<std::string> lines;
  for (const Problem& problem : problems) lines.push_back(problem.key + ": " + problem.sentence);
  throw Error(ErrorKind::Usage, fmt::format("{}", fmt::join(lines, "\n")));
}

}  // namespace taxon::plan
