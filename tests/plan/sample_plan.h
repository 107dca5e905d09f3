#pragma once

#include "plan/catalogue.h"
#include "plan/plan.h"

namespace taxon::test {

/// Keys of the codec top_k of the catalogue below.
struct SampleOptions {
  double density = 0.01;
  int bits = 4;
};
template <plan::Like<SampleOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(plan::Field{.key = "density", .sentence = "Share.", .min = 0, .max = 1, .above_min = true},
        o.density);
  visit(plan::Field{.key = "bits", .sentence = "Of a value.", .choices = "2 4 8"}, o.bits);
}

/// Keys of the consistency clocks.
struct SampleClocks {
  std::int64_t staleness = 0;
  int quorum = 0, apply = 0;
};
template <plan::Like<SampleClocks> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(plan::Field{.key = "staleness", .sentence = "Lead.", .min = -1}, o.staleness);
  visit(plan::Field{.key = "quorum", .sentence = "Of workers.", .min = 0}, o.quorum);
  visit(plan::Field{.key = "apply", .sentence = "Contributions.", .min = 0}, o.apply);
}
inline plan::ConsistencyBounds sample_bounds(const plan::LevelPlan& level) {
  const SampleClocks clocks = level.options.read<SampleClocks>();
  return {clocks.staleness, clocks.quorum, clocks.apply,
          fmt::format("lead {}, quorum {}, apply {}", clocks.staleness, clocks.quorum, clocks.apply)};
}

inline std::vector<std::string> too_few_micro_batches(int ranks, int micros, const plan::Options&) {
  if (micros >= ranks) return {};
  return {fmt::format("{} micro-batches for {} ranks", micros, ranks)};
}

/// Names as the tables of a full build have them.
inline plan::Catalogue catalogue() {
  return {.models = {{.name = "mlp"},
                     {.name = "cnn"},
                     {.name = "resnet18"},
                     {.name = "perceptron"},
                     {.name = "reader", .takes_tokens = true}},
          .tasks = {{.name = "classification"}, {.name = "language_model"}},
          .datasets = {{.name = "idx"},
                       {.name = "synthetic"},
                       {.name = "blobs"},
                       {.name = "table", .options = plan::option_keys<SampleOptions>()}},
          .transports = {"tcp", "shm"},
          .graphs = {{.name = "ring"}, {.name = "exponential"}},
          .transforms = {{.name = "flip"}, {.name = "crop", .options = plan::option_keys<SampleOptions>()}},
          .schedules = {{.name = "constant"}, {.name = "step"}, {.name = "cosine"}},
          .pipelines = {{.name = "1f1b", .problems = too_few_micro_batches},
                        {.name = "pipedream", .flushes = false, .problems = too_few_micro_batches}},
          .rules = {{.name = "sgd", .is_linear = true},
                    {.name = "momentum", .has_momentum = true},
                    {.name = "nesterov", .has_momentum = true},
                    {.name = "adamw"},
                    {.name = "lars", .by_tensor = true}},
          .topologies = {{.name = "all_reduce",
                          .collectives = {"ring", "tree", "direct"},
                          .sum = plan::SumAt::Everyone,
                          .optimisation = "replicated"},
                         {.name = "sharded",
                          .collectives = {"ring", "direct"},
                          .sum = plan::SumAt::Parts,
                          .optimisation = "sharded"},
                         {.name = "gossip", .has_graph = true, .scheduling = "synchronous"},
                         {.name = "pairs", .scheduling = "asynchronous"},
                         {.name = "servers", .sum = plan::SumAt::Servers}},
          .outer_rules = {{.name = "average", .replicas = "averaged", .keeps_centre = false},
                          {.name = "block_nesterov"},
                          {.name = "outer_nesterov", .replicas = "outer Nesterov"},
                          {.name = "elastic", .replicas = "elastic centre"},
                          {.name = "block"}},
          .consistencies = {{.name = "clocks",
                             .bounds = sample_bounds,
                             .options = plan::option_keys<SampleClocks>()}},
          .lates = {{.name = "as_others"},
                    {.name = "less", .weights = false},
                    {.name = "compensated",
                     .weights = false,
                     .keeps_served = true,
                     .scheduling = "delay compensated"},
                    {.name = "moved", .gradients = false, .keeps_served = true}},
          .codecs = {{.name = "int8", .biased = true},
                     {.name = "qsgd"},
                     {.name = "top_k",
                      .biased = true,
                      .sends_entries = true,
                      .options = plan::option_keys<SampleOptions>()},
                     {.name = "gtop_k", .biased = true, .sends_entries = true, .stands_alone = false},
                     {.name = "count_sketch",
                      .biased = true,
                      .sends_entries = true,
                      .linear = true,
                      .stands_alone = false,
                      .asks = true},
                     {.name = "split_sketch", .biased = true, .sends_entries = true, .stands_alone = false},
                     {.name = "sign_vote", .biased = true, .votes = true, .stands_alone = false}}};
}

/// The least that a legal plan must say.
inline plan::Plan legal_plan() {
  plan::Plan plan;
  plan.batch.global = 128;
  plan.length.epochs = 1;
  return plan;
}

}  // namespace taxon::test
