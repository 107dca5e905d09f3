#include "plan/legality.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "plan/sample_plan.h"

namespace taxon::plan {
namespace {

struct Illegal {
  const char* message;
  std::function<void(Plan&)> change;
  int world_size = 2;
};

std::vector<Illegal> illegal_plans() {
  return {
      {"name: must be usable as the name of a folder: it is \"a/b\"", [](Plan& p) { p.name = "a/b"; }},
      {"model: exactly one of model.name and model.torchscript must be given: both are",
       [](Plan& p) { p.model.torchscript = "m.pt"; }},
      {"model: exactly one of model.name and model.torchscript must be given: neither is",
       [](Plan& p) { p.model.name = ""; }},
      {"model.name: must name a model: it is \"ccn\"; did you mean cnn?",
       [](Plan& p) { p.model.name = "ccn"; }},
      {"model.name: must name a model: it is \"transformer\"; known are mlp, cnn, resnet18, perceptron, "
       "reader",
       [](Plan& p) { p.model.name = "transformer"; }},
      {"model.name: must take what the data set gives: reader takes tokens, and data set idx gives numbers",
       [](Plan& p) { p.model.name = "reader"; }},
      {"task.name: must be auto or name a task: it is \"clasification\"; did you mean classification?",
       [](Plan& p) { p.task.name = "clasification"; }},
      {"model.frozen: must list names of parameters: one is empty",
       [](Plan& p) {
         p.model.frozen = {"a", ""};
       }},
      {"data.dataset: must name a kind of data set: it is \"idxx\"; did you mean idx?",
       [](Plan& p) { p.data.dataset = "idxx"; }},
      {"data.validation: must leave samples to train on: it is 10 of 10",
       [](Plan& p) { p.data.train_limit = p.data.validation = 10; }},
      {"data.validation: at most one of data.validation, data.validation_share and data.validation_path may "
       "be given: 2 are",
       [](Plan& p) {
         p.data.validation = 1;
         p.data.validation_path = "there";
       }},
      {"data.transforms: must name transforms: it is \"flp\"; did you mean flip?",
       [](Plan& p) {
         p.data.transforms = {{.name = "flip"}, {.name = "flp"}};
       }},
      {"evaluation.split: validation needs data.validation or data.validation_share above 0, or "
       "data.validation_path: there is none",
       [](Plan& p) { p.evaluation.split = Split::Validation; }},
      {"batch: exactly one of batch.global and batch.per_worker must be given, above 0: neither is",
       [](Plan& p) { p.batch.global = 0; }},
      {"batch: exactly one of batch.global and batch.per_worker must be given, above 0: both are",
       [](Plan& p) { p.batch.per_worker = 1; }},
      {"batch.micro_batches: must not exceed a worker's share of the batch: it is 65, and a worker's share "
       "is "
       "64 sample(s)",
       [](Plan& p) { p.batch.micro_batches = 65; }},
      {"precision: master must be float64 for compute float64, and float32 otherwise: compute is float64, "
       "master is float32",
       [](Plan& p) { p.precision.compute = DType::Float64; }},
      {"precision: master must be float64 for compute float64, and float32 otherwise: compute is bfloat16, "
       "master is float64",
       [](Plan& p) {
         p.precision = {DType::BFloat16, DType::Float64};
       }},
      {"optimiser.rule: must name an update rule: it is \"adamW\"; did you mean adamw?",
       [](Plan& p) { p.optimiser.rule = "adamW"; }},
      {"learning_rate.schedule: must name a schedule: it is \"cosin\"; did you mean cosine?",
       [](Plan& p) { p.learning_rate.schedule = "cosin"; }},
      {"learning_rate.warmup_samples: must end within the run: it is 11, and length.samples is 10",
       [](Plan& p) {
         p.length = {.samples = 10};
         p.learning_rate.warmup_samples = 11;
       }},
      {"length: exactly one of length.epochs, length.steps and length.samples must be given, above 0: none "
       "is",
       [](Plan& p) { p.length = {}; }},
      {"length: exactly one of length.epochs, length.steps and length.samples must be given, above 0: 2 are",
       [](Plan& p) { p.length.steps = 4; }},
      {"exchange.levels: factors need topology all_reduce and rule sum, and belong to the first level: what "
       "goes on from there is a sum, which has no factors: level 0 has topology sharded and rule sum",
       [](Plan& p) { p.exchange.levels = {{.topology = "sharded", .factors = FactorUse::Auto}}; }},
      {"exchange.levels: factors need topology all_reduce and rule sum, and belong to the first level: what "
       "goes on from there is a sum, which has no factors: level 0 has topology all_reduce and rule average",
       [](Plan& p) { p.exchange.levels = {{.rule = "average", .factors = FactorUse::Auto}}; }},
      {"exchange.levels: factors need topology all_reduce and rule sum, and belong to the first level: what "
       "goes on from there is a sum, which has no factors: level 1 has topology all_reduce and rule sum",
       [](Plan& p) {
         p.exchange.levels = {{.group = LevelGroup::Node},
                              {.group = LevelGroup::Across, .factors = FactorUse::Always}};
       }},
      {"exchange.levels: factors need codec none at their level, since a memory of errors would lack the "
       "gradients that never were: it is int8",
       [](Plan& p) { p.exchange.levels = {{.factors = FactorUse::Auto, .codec = {.name = "int8"}}}; }},
      {"exchange.gradients: must be whole where gradients travel as factors, since their sum is made of all: "
       "it is ring",
       [](Plan& p) {
         p.exchange.levels = {{.group = LevelGroup::Node, .factors = FactorUse::Auto},
                              {.group = LevelGroup::Across, .topology = "sharded"}};
         p.exchange.gradients = GradientMemory::Ring;
         p.exchange.order = BucketOrder::Backward;
       }},
      {"mesh.data: must be 0, or make the number of workers with mesh.pipeline and mesh.tensor, which must "
       "divide it: it is 3, and there are 2 worker(s), pipeline is 1, tensor is 1",
       [](Plan& p) { p.mesh.data = 3; }},
      {"mesh.data: must be 0, or make the number of workers with mesh.pipeline and mesh.tensor, which must "
       "divide it: there are 6 worker(s), pipeline is 2, tensor is 2",
       [](Plan& p) {
         p.mesh.pipeline = p.mesh.tensor = 2;
         p.batch = {.per_worker = 4, .micro_batches = 2};
       },
       6},
      {"mesh.pipeline: and mesh.tensor above 1 need a synchronous exchange of gradients over data alone, "
       "with "
       "sums, without delay, ring, factors and servers: exchange.delay is 1",
       [](Plan& p) {
         p.mesh.tensor = 2;
         p.exchange.delay = 1;
       }},
      {"pipeline.schedule: must name a schedule of pipelines: it is \"1f2b\"; did you mean 1f1b?",
       [](Plan& p) { p.pipeline.schedule = "1f2b"; }},
      {"pipeline.schedule: must fit mesh.pipeline and batch.micro_batches: 1 micro-batches for 2 ranks",
       [](Plan& p) { p.mesh.pipeline = 2; }},
      {"pipeline.schedule: by which stages update their weights between micro-batches needs mesh.pipeline "
       "above 1, optimiser.clip_norm 0 and on_divergence other than skip, since nobody has the whole model's "
       "gradient: it is pipedream, and mesh.pipeline is 1",
       [](Plan& p) { p.pipeline.schedule = "pipedream"; }},
      {"pipeline.schedule: by which stages update their weights between micro-batches needs mesh.pipeline "
       "above 1, optimiser.clip_norm 0 and on_divergence other than skip, since nobody has the whole model's "
       "gradient: it is pipedream, and optimiser.clip_norm is 0.5",
       [](Plan& p) {
         p.mesh.pipeline = 2;
         p.batch = {.per_worker = 4, .micro_batches = 2};
         p.pipeline.schedule = "pipedream";
         p.optimiser.clip_norm = 0.5;
       }},
      {"pipeline.schedule: by which stages update their weights between micro-batches needs mesh.pipeline "
       "above 1, optimiser.clip_norm 0 and on_divergence other than skip, since nobody has the whole model's "
       "gradient: it is pipedream, and on_divergence is skip",
       [](Plan& p) {
         p.mesh.pipeline = 2;
         p.batch = {.per_worker = 4, .micro_batches = 2};
         p.pipeline.schedule = "pipedream";
         p.on_divergence = OnDivergence::Skip;
       }},
      {"pipeline.activations: recomputed needs mesh.pipeline or mesh.tensor above 1: both are 1",
       [](Plan& p) { p.pipeline.activations = Activations::Recomputed; }},
      {"pipeline.cut: needs mesh.pipeline above 1: it has 1 segment(s), and mesh.pipeline is 1",
       [](Plan& p) { p.pipeline.cut = {"fc"}; }},
      {"mesh.splits: must be LAYER=ROW or auto each, of a row that is known, and needs mesh.tensor above 1: "
       "it has \"fc1\"",
       [](Plan& p) {
         p.mesh.tensor = 2;
         p.mesh.splits = {"fc1"};
       }},
      {"mesh.splits: must be LAYER=ROW or auto each, of a row that is known, and needs mesh.tensor above 1: "
       "it has 1 layer(s), and "
       "mesh.tensor "
       "is 1",
       [](Plan& p) { p.mesh.splits = {"fc1=none"}; }},
      {"mesh.node: must be 0 or divide the number of workers: it is 3, and there are 2 worker(s)",
       [](Plan& p) { p.mesh.node = 3; }},
      {"exchange.levels: must be one level over data, or one over node and then one over across: they are []",
       [](Plan& p) { p.exchange.levels.clear(); }},
      {"exchange.levels: must be one level over data, or one over node and then one over across: they are "
       "[across, node]",
       [](Plan& p) {
         p.exchange.levels = {{.group = LevelGroup::Across}, {.group = LevelGroup::Node}};
       }},
      {"exchange.levels: topology must name a topology: it is \"all-reduce\"; did you mean all_reduce?",
       [](Plan& p) { p.exchange.levels[0].topology = "all-reduce"; }},
      {"exchange.levels: collective must be auto or name one that serves the topology: it is \"rng\"; did "
       "you "
       "mean ring?",
       [](Plan& p) { p.exchange.levels[0].collective = "rng"; }},
      {"exchange.levels: collective must be auto or name one that serves the topology: it is \"tree\"; known "
       "are auto, ring, direct",
       [](Plan& p) { p.exchange.levels[0] = {.topology = "sharded", .collective = "tree"}; }},
      {"exchange.levels: rule must be sum or name an outer rule: it is \"averge\"; did you mean average?",
       [](Plan& p) { p.exchange.levels[0].rule = "averge"; }},
      {"exchange.levels: graph must name a graph of gossip: it is \"rings\"; did you mean ring?",
       [](Plan& p) { p.exchange.levels[0].graph = "rings"; }},
      {"exchange.levels: a rule other than sum belongs to the last level, where replicas meet: level 0 has "
       "average",
       [](Plan& p) {
         p.exchange.levels = {{.group = LevelGroup::Node, .rule = "average"}, {.group = LevelGroup::Across}};
       }},
      {"exchange.levels: a period and what else describes meetings needs a rule other than sum: rule is sum; "
       "give a rule, or take the other keys of meetings away",
       [](Plan& p) { p.exchange.levels[0].period = 10; }},
      {"exchange.levels: fragments must divide the period: period is 10, fragments is 3",
       [](Plan& p) { p.exchange.levels[0] = {.rule = "average", .period = 10, .fragments = 3}; }},
      {"exchange.levels: delay must be shorter than period / fragments, so that one meeting ends before the "
       "next: delay is 5, and something meets every 5 step(s)",
       [](Plan& p) { p.exchange.levels[0] = {.rule = "average", .period = 10, .fragments = 2, .delay = 5}; }},
      {"exchange.levels: inner_state average needs delay 0: delay is 1",
       [](Plan& p) {
         p.exchange.levels[0] = {
             .rule = "average", .period = 10, .inner_state = InnerState::Average, .delay = 1};
       }},
      {"exchange.levels: inner_state average needs a topology other than servers, which have weights alone: "
       "topology is servers",
       [](Plan& p) {
         p.exchange.levels[0] = {.topology = "servers",
                                 .rule = "block_nesterov",
                                 .period = 3,
                                 .momentum = 0.5,
                                 .inner_state = InnerState::Average};
       }},
      {"mesh.servers: needs a level that they serve, and ranks that work: no level has topology servers",
       [](Plan& p) { p.mesh.servers = 1; }},
      {"mesh.servers: needs a level that they serve, and ranks that work: it is 2 of 2 rank(s)",
       [](Plan& p) {
         p.mesh.servers = 2;
         p.exchange.levels[0].topology = "servers";
       }},
      {"exchange.levels: topology servers must be the only level, or lie across nodes whose level is "
       "sharded, "
       "with rule sum, a consistency without a quorum and mesh.servers 0: there are 2 levels, the first with "
       "topology all_reduce",
       [](Plan& p) {
         p.exchange.levels = {{.group = LevelGroup::Node},
                              {.group = LevelGroup::Across, .topology = "servers"}};
       }},
      {"exchange.levels: topology servers needs a rule that keeps a centre: rule is average; use block, "
       "whose "
       "momentum is 0",
       [](Plan& p) { p.exchange.levels[0] = {.topology = "servers", .rule = "average"}; }},
      {"exchange.levels: consistency and late belong to topology servers: "
       "topology is all_reduce",
       [](Plan& p) { p.exchange.levels[0].late = "less"; }},
      {"exchange.levels: consistency must name when workers of servers may go on: it is \"clock\"; did you "
       "mean clocks?",
       [](Plan& p) { p.exchange.levels[0] = {.topology = "servers", .consistency = "clock"}; }},
      {"exchange.levels: replicas that meet at servers need a consistency by which nobody goes on before an "
       "update took in what it handed in (clocks: staleness 0 or apply 1), since each gets its own answer: "
       "consistency is clocks (lead -1, quorum 0, apply 2)",
       [](Plan& p) {
         p.exchange.levels[0] = {
             .topology = "servers", .rule = "elastic", .options = {{"staleness", -1}, {"apply", 2}}};
       }},
      {"exchange.levels: late must name what becomes of late contributions: it is \"lesss\"; did you mean "
       "less?",
       [](Plan& p) { p.exchange.levels[0] = {.topology = "servers", .late = "lesss"}; }},
      {"exchange.levels: late must fit what is handed in: gradients with rule sum, otherwise weights: late "
       "is moved, rule is sum",
       [](Plan& p) { p.exchange.levels[0] = {.topology = "servers", .late = "moved"}; }},
      {"exchange.levels: late must fit what is handed in: gradients with rule sum, otherwise weights: late "
       "is less, rule is block",
       [](Plan& p) { p.exchange.levels[0] = {.topology = "servers", .rule = "block", .late = "less"}; }},
      {"exchange.levels: late needs such a consistency too (clocks: staleness 0 or apply 1) where servers "
       "correct by what each worker was served last: late is compensated, consistency is clocks (lead -1, "
       "quorum 0, apply 2)",
       [](Plan& p) {
         p.exchange.levels[0] = {
             .topology = "servers", .late = "compensated", .options = {{"staleness", -1}, {"apply", 2}}};
       }},
      {"optimiser.rule: that needs norms of whole tensors needs whole sums: no topology sharded or servers "
       "with rule sum, and mesh.tensor 1: it is lars, topology is sharded",
       [](Plan& p) {
         p.optimiser.rule = "lars";
         p.exchange.levels[0].topology = "sharded";
       }},
      {"optimiser.rule: that needs norms of whole tensors needs whole sums: no topology sharded or servers "
       "with rule sum, and mesh.tensor 1: it is lars, mesh.tensor is 2",
       [](Plan& p) {
         p.optimiser.rule = "lars";
         p.mesh.tensor = 2;
       }},
      {"optimiser.clip_norm: must be 0 with topology servers and rule sum, since no server sees the whole "
       "gradient: "
       "clip_norm is 1",
       [](Plan& p) {
         p.exchange.levels[0].topology = "servers";
         p.optimiser.clip_norm = 1;
       }},
      {"exchange.delay: must be 0 with topology servers, whose consistency says how late gradients may be: "
       "delay is 1",
       [](Plan& p) {
         p.exchange.levels[0].topology = "servers";
         p.exchange.delay = 1;
       }},
      {"exchange.delay: replicas that meet have a delay of their own, that of their level: delay is 1",
       [](Plan& p) {
         p.exchange.levels[0].rule = "average";
         p.exchange.delay = 1;
       }},
      {"exchange.gradients: ring needs a level whose topology is sharded: none is",
       [](Plan& p) {
         p.exchange.gradients = GradientMemory::Ring;
         p.exchange.order = BucketOrder::Backward;
       }},
      {"exchange.gradients: ring needs order: backward: order is priority",
       [](Plan& p) {
         p.exchange.gradients = GradientMemory::Ring;
         p.exchange.levels[0].topology = "sharded";
       }},
      {"exchange.gradients: ring needs batch.micro_batches: 1, since sums of micro-batches need whole "
       "memory, unless parameters are sharded and all micro-batches pass a segment before the next one: "
       "batch.micro_batches is 2",
       [](Plan& p) {
         p.exchange.gradients = GradientMemory::Ring;
         p.exchange.order = BucketOrder::Backward;
         p.exchange.levels[0].topology = "sharded";
         p.batch.micro_batches = 2;
       }},
      {"exchange.gradients: ring and a delay above 0 exclude each other: delay is 1",
       [](Plan& p) {
         p.exchange.gradients = GradientMemory::Ring;
         p.exchange.order = BucketOrder::Backward;
         p.exchange.levels[0].topology = "sharded";
         p.exchange.delay = 1;
       }},
      {"on_divergence: skip needs exchange.gradients: whole, since a ring has no room for gradients that "
       "wait: it is "
       "ring",
       [](Plan& p) {
         p.exchange.gradients = GradientMemory::Ring;
         p.exchange.order = BucketOrder::Backward;
         p.exchange.levels[0].topology = "sharded";
         p.on_divergence = OnDivergence::Skip;
       }},
      {"transport.kind: must be auto or name a transport: it is \"tpc\"; did you mean tcp?",
       [](Plan& p) { p.transport.kind = "tpc"; }},
      {"emulation.slow: rank must be one of the run's, or -1 for all: it is 2, and there are ranks 0 to 1",
       [](Plan& p) {
         p.emulation.slow = {{.rank = -1}, {.rank = 2, .slowdown = 3}};
       }},
      {"control.deadline_seconds: must not be shorter than silence_seconds and hang_seconds: it is 6, and "
       "they "
       "are 5 and 8",
       [](Plan& p) { p.control.deadline_seconds = 6; }},
      {"exchange.levels.codec: must be none or name a codec: it is \"topk\"; did you mean top_k?",
       [](Plan& p) { p.exchange.levels[0].codec.name = "topk"; }},
      {"exchange.levels.codec.of: must name a codec where the codec is auto: it is \"topk\"; did you mean "
       "top_k?",
       [](Plan& p) { p.exchange.levels[0].codec = {.name = "auto", .of = "topk"}; }},
      {"exchange.levels.codec.answer: must be none or name a codec: it is \"int9\"; did you mean int8?",
       [](Plan& p) {
         p.exchange.levels[0].topology = "servers";
         p.exchange.levels[0].codec.answer = "int9";
       }},
      {"exchange.levels.topology: must be all_reduce, sharded or servers where a level has a codec; "
       "all_reduce with rule sum for auto: it is gossip",
       [](Plan& p) {
         p.exchange.levels[0] = {.topology = "gossip", .rule = "average"};
         p.exchange.levels[0].codec.name = "top_k";
       }},
      {"exchange.levels.codec: at servers needs rule sum, no warmup_density and dense_steps 0: their wires "
       "have one size: rule is block, warmup_density has 0 values, dense_steps is 0",
       [](Plan& p) {
         p.exchange.levels[0] = {.topology = "servers", .rule = "block"};
         p.exchange.levels[0].codec.name = "top_k";
       }},
      {"exchange.levels.codec.answer: needs topology servers, a codec of a single round, and none of the "
       "late "
       "rules that keep what was served: topology is all_reduce, answer is int8, late is as_others",
       [](Plan& p) { p.exchange.levels[0].codec = {.name = "int8", .answer = "int8"}; }},
      {"exchange.levels.codec: must be one of a single round, neither merged nor voted, where each member "
       "owns "
       "a part, or at servers one whose second round they can hold: codec is gtop_k, topology is sharded",
       [](Plan& p) {
         p.exchange.levels[0].topology = "sharded";
         p.exchange.levels[0].codec.name = "gtop_k";
       }},
      {"exchange.levels.codec: must be one of a single round, neither merged nor voted, where each member "
       "owns a part, or at servers one whose second round they can hold: codec is count_sketch, topology is "
       "sharded",
       [](Plan& p) {
         p.exchange.levels[0].topology = "sharded";
         p.exchange.levels[0].codec.name = "count_sketch";
       }},
      {"exchange.levels.codec: of two rounds at servers, whose answers are the entries that changed, needs "
       "a consistency that keeps workers in step, late as_others, optimiser.rule sgd with weight_decay 0, a "
       "memory of errors and answer none: consistency is clocks (lead 0, quorum 0, apply 0), late as_others, "
       "answer none, feedback auto, optimiser.rule sgd, weight_decay 0.1",
       [](Plan& p) {
         p.exchange.levels[0].topology = "servers";
         p.exchange.levels[0].codec.name = "count_sketch";
         p.optimiser.rule = "sgd";
         p.optimiser.weight_decay = 0.1;
       }},
      {"exchange.levels.codec: where replicas meet needs inner_state keep or reset, and no votes, which say "
       "nothing of "
       "how far replicas went: rule is block, inner_state is average, codec is top_k",
       [](Plan& p) {
         p.exchange.levels[0] = {.rule = "block", .inner_state = InnerState::Average};
         p.exchange.levels[0].codec.name = "top_k";
       }},
      {"precision.master: must be float32 where a level has a codec: it is float64",
       [](Plan& p) {
         p.precision = {DType::Float64, DType::Float64};
         p.exchange.levels[0].codec.name = "top_k";
       }},
      {"exchange.levels.codec: needs exchange.delay 0 and exchange.gradients whole: delay is 1, gradients is "
       "whole",
       [](Plan& p) {
         p.exchange.delay = 1;
         p.exchange.levels[0].codec.name = "top_k";
       }},
      {"exchange.levels.codec: needs collective auto: what wires travel by follows from their sizes; an "
       "all-reduce can be named where it sums the wires: codec is top_k, "
       "collective is ring",
       [](Plan& p) {
         p.exchange.levels[0].collective = "ring";
         p.exchange.levels[0].codec.name = "top_k";
       }},
      {"exchange.levels.codec.warmup_density: needs a codec whose entries are a share of the values: codec "
       "is int8",
       [](Plan& p) { p.exchange.levels[0].codec = {.name = "int8", .warmup_density = {0.5}}; }},
      {"exchange.levels.codec.global: needs a codec by name on a single level, of topology all_reduce, rule "
       "sum "
       "and no factors: codec is none",
       [](Plan& p) { p.exchange.levels[0].codec.global = true; }},
      {"exchange.levels.codec.global: needs a codec by name on a single level, of topology all_reduce, rule "
       "sum "
       "and no factors: there are 1 level(s), topology is all_reduce, rule is average, factors is none",
       [](Plan& p) {
         p.exchange.levels[0].rule = "average";
         p.exchange.levels[0].codec = {.name = "top_k"};
         p.exchange.levels[0].codec.global = true;
       }},
      {"exchange.levels.codec: inside a node mostly costs more than it saves; put it on the level across, or "
       "say force: true: force is false",
       [](Plan& p) {
         p.exchange.levels = {{.group = LevelGroup::Node}, {.group = LevelGroup::Across}};
         p.exchange.levels[0].codec.name = "top_k";
       }},
      {"exchange.levels.codec.feedback: a biased codec needs feedback memory, without which training goes "
       "wrong; or say force: true: codec is int8, feedback is none",
       [](Plan& p) { p.exchange.levels[0].codec = {.name = "int8", .feedback = FeedbackKind::None}; }},
      {"optimiser.rule: must be sgd where a codec has momentum, which would be applied twice: optimiser.rule "
       "is momentum",
       [](Plan& p) { p.exchange.levels[0].codec = {.name = "top_k", .momentum = 0.9}; }},
      {"exchange.levels.codec.momentum: needs rule sum: where replicas meet the rule has momentum: rule is "
       "average",
       [](Plan& p) {
         p.optimiser.rule = "sgd";
         p.exchange.levels[0].rule = "average";
         p.exchange.levels[0].codec = {.name = "top_k", .momentum = 0.9};
       }},
      {"exchange.levels.codec.decay: must be 1 where the codec has momentum, which decays velocities: "
       "momentum "
       "is 0.9",
       [](Plan& p) {
         p.optimiser.rule = "sgd";
         p.exchange.levels[0].codec = {.name = "top_k", .decay = 0.9, .momentum = 0.9};
       }},
      {"exchange.levels.codec.decay: needs a memory of errors, which fades by it: codec is qsgd, feedback is "
       "auto",
       [](Plan& p) { p.exchange.levels[0].codec = {.name = "qsgd", .decay = 0.9}; }},
      {"exchange.levels.codec.momentum: needs a memory of errors, which velocities are added to: feedback is "
       "none",
       [](Plan& p) {
         p.optimiser.rule = "sgd";
         p.exchange.levels[0].codec = {
             .name = "qsgd", .feedback = FeedbackKind::None, .momentum = 0.9, .masking = false};
       }},
      {"exchange.levels.codec.feedback: difference needs topology all_reduce, rule sum, a codec of a single "
       "round, neither merged nor voted, momentum 0, decay 1 and dense_steps 0: topology is sharded, rule is "
       "sum, codec is top_k, momentum is 0, decay is 1, dense_steps is 0",
       [](Plan& p) {
         p.exchange.levels[0].topology = "sharded";
         p.exchange.levels[0].codec = {.name = "top_k", .feedback = FeedbackKind::Difference};
       }},
      {"exchange.levels.codec.feedback: must be auto or none for a codec that votes: without magnitudes "
       "nobody knows what did not travel: codec is sign_vote",
       [](Plan& p) { p.exchange.levels[0].codec = {.name = "sign_vote", .feedback = FeedbackKind::Memory}; }},
      {"exchange.levels.codec.masking: needs a codec that sends entries; use masking: false: codec is int8",
       [](Plan& p) {
         p.optimiser.rule = "sgd";
         p.exchange.levels[0].codec = {.name = "int8", .momentum = 0.9};
       }},
  };
}

TEST(Legality, TheLeastPlanIsLegalForEveryWorldSize) {
  for (int n : {1, 2, 7, 1000}) EXPECT_TRUE(check_plan(test::legal_plan(), n, test::catalogue()).empty());
}

TEST(Legality, EachRuleFindsWhatBreaksIt) {
  std::size_t rows = 0;
  std::string last;
  for (const Illegal& illegal : illegal_plans()) {
    Plan plan = test::legal_plan();
    illegal.change(plan);
    auto problems = check_plan(plan, illegal.world_size, test::catalogue());
    std::string found;
    for (const Problem& problem : problems) found += problem.key + ": " + problem.sentence + "\n";
    ASSERT_EQ(problems.size(), 1u) << illegal.message << "\nfound\n" << found;
    EXPECT_EQ(problems[0].key + ": " + problems[0].sentence, illegal.message);
    std::string row = problems[0].key + problems[0].sentence.substr(0, problems[0].sentence.find(':'));
    rows += row != last;
    last = row;
  }
  EXPECT_EQ(rows, legality_table().size()) << "a rule has no test, or the tests are out of order";
}

TEST(Legality, LegalSpecialCases) {
  auto expect_legal = [](auto change, int world_size) {
    Plan plan = test::legal_plan();
    change(plan);
    EXPECT_TRUE(check_plan(plan, world_size, test::catalogue()).empty());
  };
  expect_legal([](Plan& p) { p.mesh.data = 3; }, 3);
  expect_legal(
      [](Plan& p) {
        p.mesh = {.data = 2, .pipeline = 3, .tensor = 2};
        p.batch = {.per_worker = 6, .micro_batches = 3};
        p.pipeline.cut = {"conv2", "fc"};
      },
      12);
  expect_legal([](Plan& p) { p.batch.global = 2; }, 5);  // ranks without samples
  expect_legal([](Plan& p) { p.batch = {.per_worker = 4, .micro_batches = 4}; }, 3);
  expect_legal([](Plan& p) { p.precision = {DType::Float64, DType::Float64}; }, 2);
  expect_legal([](Plan& p) { p.precision = {DType::BFloat16, DType::Float32}; }, 2);
  expect_legal(
      [](Plan& p) {
        p.exchange.levels[0].codec = {.name = "int8", .feedback = FeedbackKind::None, .force = true};
      },
      4);
  expect_legal(
      [](Plan& p) {
        p.exchange.levels = {{.group = LevelGroup::Node, .topology = "sharded"},
                             {.group = LevelGroup::Across}};
        p.exchange.levels[1].codec.name = "top_k";
      },
      4);
  expect_legal(
      [](Plan& p) {
        p.optimiser.rule = "sgd";
        p.exchange.levels[0].codec = {
            .name = "sign_vote", .feedback = FeedbackKind::None, .momentum = 0.9, .masking = false};
      },
      4);
  expect_legal(
      [](Plan& p) {
        p.optimiser.rule = "adamw";
        p.exchange.levels[0] = {.topology = "sharded", .rule = "outer_nesterov", .period = 9};
        p.exchange.levels[0].codec.name = "int8";
      },
      4);
  expect_legal([](Plan& p) { p.model = {.name = "", .torchscript = "m.pt"}; }, 2);
  expect_legal([](Plan& p) { p.model.name = "folder/m.pt2"; }, 2);
}

TEST(Legality, CodecAutoIsJudgedAsItsCodec) {
  Plan plan = test::legal_plan();
  plan.exchange.levels[0].codec = {.name = "auto", .of = "int8", .feedback = FeedbackKind::None};
  const auto problems = check_plan(plan, 4, test::catalogue());
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].key, "exchange.levels.codec.feedback");
  plan.exchange.levels[0].codec.of = "qsgd";
  EXPECT_TRUE(check_plan(plan, 4, test::catalogue()).empty());
}

TEST(Legality, ARowsOptionsAreThoseThatItDescribes) {
  Plan plan = test::legal_plan();
  CodecPlan& codec = plan.exchange.levels[0].codec;
  const auto problem = [&] {
    const auto problems = check_plan(plan, 2, test::catalogue());
    return problems.size() == 1 ? problems[0].key + ": " + problems[0].sentence
                                : fmt::format("{} problems", problems.size());
  };
  codec = {.name = "top_k", .options = {{"density", 0.5}}};
  EXPECT_EQ(problem(), "0 problems");
  codec.options.set("density", 2);
  EXPECT_EQ(problem(), "exchange.levels.codec.density: must be a number, above 0 and at most 1: it is \"2\"");
  codec.options = {{"densty", 0.5}};
  EXPECT_EQ(problem(), "exchange.levels.codec.densty: codec top_k has no such key");
  codec = {.name = "int8", .options = {{"density", 0.5}}};
  EXPECT_EQ(problem(), "exchange.levels.codec.density: codec int8 has no such key");
  codec = {.name = "int8", .answer = "top_k", .options = {{"density", 0.5}}};
  plan.exchange.levels[0].topology = "servers";
  EXPECT_EQ(problem(), "0 problems");
}

TEST(Legality, ARowsOwnRulesAreAskedOfLevelsThatNameIt) {
  static constexpr LevelRule kRules[] = {
      {"exchange.levels.codec.density", "must be small inside a level of sharded topology",
       [](const LegalityInput&, const LevelPlan& level) {
         return unless(
             level.topology != "sharded" || level.codec.options.read<test::SampleOptions>().density < 0.1,
             "it is large");
       }}};
  Catalogue known = test::catalogue();
  for (Catalogue::Codec& codec : known.codecs)
    if (codec.name == "top_k") codec.rules = kRules;
  Plan plan = test::legal_plan();
  plan.exchange.levels[0] = {.topology = "sharded",
                             .codec = {.name = "top_k", .options = {{"density", 0.5}}}};
  const auto problems = check_plan(plan, 2, known);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].sentence, "must be small inside a level of sharded topology: it is large");
  plan.exchange.levels[0].codec.options.set("density", 0.01);
  EXPECT_TRUE(check_plan(plan, 2, known).empty());
  plan.exchange.levels[0].codec = {.name = "int8"};
  EXPECT_TRUE(check_plan(plan, 2, known).empty());
}

TEST(Legality, AllViolationsAreReportedTogether) {
  Plan plan = test::legal_plan();
  plan.batch.global = 0;
  plan.length = {};
  plan.model.name = "ccn";
  auto problems = check_plan(plan, 2, test::catalogue());
  ASSERT_EQ(problems.size(), 3u);
  try {
    require_legal(problems);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    std::string text = error.what();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
    EXPECT_THAT(text, testing::HasSubstr("batch: exactly one of"));
  }
  EXPECT_NO_THROW(require_legal({}));
}

}  // namespace
}  // namespace taxon::plan
