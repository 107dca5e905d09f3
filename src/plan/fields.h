#pragma once

#include "plan/exchange_fields.h"
#include "plan/field.h"
#include "plan/plan.h"
#include "plan/resolved_fields.h"

namespace taxon::plan {

/// visit_fields(section, visit) calls visit(Field, member) for every key of the section, in the order of
/// files and references. Members are scalars, lists, sections or lists of sections.
template <Like<ModelPlan> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "name",
              .sentence =
                  "Model of the table, see below; or the path of a program of torch.export, which ends in "
                  ".pt2.",
              .one_of = "model"},
        p.name);
  visit(
      Field{
          .key = "torchscript", .sentence = "TorchScript file; takes the place of name.", .one_of = "model"},
      p.torchscript);
  visit(Field{.key = "frozen",
              .sentence = "Parameters that are not trained: exact names, or prefixes that end in '*'."},
        p.frozen);
  visit(
      Field{
          .key = "memory_format",
          .sentence =
              "Order of images and filters in memory: contiguous (channel by channel), channels_last (pixel "
              "by pixel), or "
              "auto, the faster one for the bundled models and contiguous for TorchScript."},
      p.memory_format);
}

template <Like<TaskPlan> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "name",
              .sentence = "Task of the table, see below; auto: the first that fits the data, classification "
                          "of samples with one label, language_model of windows of tokens, regression of "
                          "real targets."},
        p.name);
}

template <Like<TransformPlan> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "name", .sentence = "Transform; see below."}, p.name);
}

template <Like<DataPlan> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "dataset", .sentence = "Kind of data set; see below."}, p.dataset);
  visit(Field{.key = "path", .sentence = "Where the data set lies: its file, or the folder of its files."},
        p.path);
  visit(Field{.key = "test_path", .sentence = "The same of the test set, where that does not lie at path."},
        p.test_path);
  visit(Field{.key = "mean", .sentence = "Subtracted from pixels after scaling them to [0, 1]."}, p.mean);
  visit(
      Field{.key = "deviation", .sentence = "What is left is divided by this.", .min = 0, .above_min = true},
      p.deviation);
  visit(
      Field{
          .key = "train_limit", .sentence = "Use only the first so many training samples; 0: all.", .min = 0},
      p.train_limit);
  visit(Field{.key = "test_limit", .sentence = "Use only the first so many test samples; 0: all.", .min = 0},
        p.test_limit);
  visit(Field{.key = "validation",
              .sentence = "The last so many of these training samples are set aside: to choose "
                          "hyperparameters by, see evaluation.split.",
              .min = 0,
              .one_of = "validation"},
        p.validation);
  visit(Field{.key = "validation_share",
              .sentence = "The same as a share of the training samples.",
              .min = 0,
              .max = 1,
              .below_max = true,
              .one_of = "validation"},
        p.validation_share);
  visit(Field{.key = "validation_path",
              .sentence = "Where samples to choose hyperparameters by lie, if they are a set of their own.",
              .one_of = "validation"},
        p.validation_path);
  visit(Field{.key = "split_seed",
              .sentence = "Draws the order in which samples are the first or the last; 0: as they lie in "
                          "the files, but drawn where they may lie class by class."},
        p.split_seed);
  visit(
      Field{.key = "faulty",
            .sentence = "A sample that cannot be read or has a label that there is not. stop: ends the run; "
                        "skip: it is left out, counted and named."},
      p.faulty);
  visit(Field{.key = "prefetch", .sentence = "Batches prepared ahead of the step.", .min = 1, .max = 1024},
        p.prefetch);
  visit(Field{.key = "threads",
              .sentence = "That prepare a worker's batches, at most: as many are used as keep steps from "
                          "waiting; 0: as many as it has cores.",
              .min = 0,
              .max = 1024},
        p.threads);
  visit(Field{.key = "transforms",
              .sentence = "What is done to each sample, in this order; a plain word is a transform's name.",
              .word = "name"},
        p.transforms);
}

template <Like<BatchPlan> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "global",
              .sentence = "Samples per step over all workers; this or per_worker.",
              .min = 0,
              .max = 1e9,
              .one_of = "batch"},
        p.global);
  visit(Field{.key = "per_worker",
              .sentence = "Samples per step and worker; this or global.",
              .min = 0,
              .max = 1e9,
              .one_of = "batch"},
        p.per_worker);
  visit(Field{.key = "micro_batches",
              .sentence = "Gradient accumulation: a worker's share is cut into so many parts.",
              .min = 1,
              .max = 1e6},
        p.micro_batches);
}

template <Like<PrecisionPlan> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "compute",
              .sentence = "Type of weights and activations in forward and backward.",
              .choices = "float32 float64 bfloat16"},
        p.compute);
  visit(Field{.key = "master",
              .sentence = "Type of the weights that the optimiser updates, and of sums.",
              .choices = "float32 float64"},
        p.master);
}

template <Like<OptimiserPlan> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "rule", .sentence = "Update rule; see below."}, p.rule);
  visit(Field{.key = "momentum",
              .sentence = "Decay of the velocity, where the rule has one (momentum, nesterov).",
              .min = 0,
              .max = 1,
              .below_max = true},
        p.momentum);
  visit(
      Field{.key = "asynchronous_momentum",
            .sentence =
                "With asynchronous servers, which add momentum of their own. lowered: momentum is meant with "
                "theirs, and the optimiser's is max(0, 1 - (1 - momentum) g) for g updates in the time of a "
                "gradient; as_given: momentum is the optimiser's, with a warning."},
      p.asynchronous_momentum);
  visit(Field{.key = "weight_decay",
              .sentence = "Shrinks weights: added to gradients, for adamw and sign taken off directly.",
              .min = 0},
        p.weight_decay);
  visit(Field{.key = "decay_all", .sentence = "Decay one-dimensional parameters (biases, norms) too."},
        p.decay_all);
  visit(Field{.key = "clip_norm",
              .sentence = "Longer gradients, over all parameters, are scaled to this norm; 0: never.",
              .min = 0},
        p.clip_norm);
}

template <Like<RatePlan> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "base", .sentence = "Learning rate after the warm-up.", .min = 0}, p.base);
  visit(Field{.key = "schedule", .sentence = "What follows the warm-up; see below."}, p.schedule);
  visit(Field{.key = "warmup_samples", .sentence = "Samples of a linear rise from 0 to base.", .min = 0},
        p.warmup_samples);
}

template <Like<LengthPlan> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "epochs",
              .sentence = "Passes over the training set, also parts of one; this, steps or samples.",
              .min = 0,
              .max = 1e6,
              .one_of = "length"},
        p.epochs);
  visit(Field{.key = "steps",
              .sentence = "Updates of the weights; this, epochs or samples.",
              .min = 0,
              .max = 1e12,
              .one_of = "length"},
        p.steps);
  visit(Field{.key = "samples",
              .sentence = "Samples used by all workers together; this, epochs or steps.",
              .min = 0,
              .max = 1e15,
              .one_of = "length"},
        p.samples);
  visit(Field{.key = "seconds",
              .sentence = "And no longer than so many seconds of training by rank 0's clock, tests and "
                          "checkpoints left out; 0: no limit. The learning rate's schedule keeps the whole "
                          "length; a resumed run has as many again.",
              .min = 0,
              .max = 1e9,
              .unit = Unit::Seconds},
        p.seconds);
}

template <Like<MeshPlan> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "data",
              .sentence = "Replicas of the model, which split the data; 0: as many as the other axes leave.",
              .min = 0,
              .max = 1 << 20},
        p.data);
  visit(Field{.key = "pipeline",
              .sentence = "Ranks that a replica's stages lie on, each a part of its layers; see pipeline.",
              .min = 1,
              .max = 1 << 16},
        p.pipeline);
  visit(Field{.key = "tensor",
              .sentence = "Ranks that a stage's layers are split among (docs/parallelism.md). Ranks count "
                          "tensor first, then data, then pipeline.",
              .min = 1,
              .max = 1 << 16},
        p.tensor);
  visit(
      Field{.key = "splits",
            .sentence =
                "Layers that mesh.tensor splits otherwise than the model would, [fc1=none, fc2=inputs]: "
                "samples, outputs, inputs, features, pairs, vocabulary, none; auto: those not named by what "
                "members send, fewest bytes (docs/parallelism.md)."},
      p.splits);
  visit(Field{.key = "node",
              .sentence = "Consecutive ranks that make a node, for the levels node and across; 0: those that "
                          "share memory.",
              .min = 0,
              .max = 1 << 20},
        p.node);
  visit(
      Field{.key = "servers",
            .sentence = "Ranks, the last ones, that only serve, for topology servers; 0: every worker serves "
                        "too.",
            .min = 0,
            .max = 1 << 20},
      p.servers);
}

template <Like<PipelinePlan> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "schedule",
              .sentence = "In which order stages take micro-batches (batch.micro_batches) forward and "
                          "backward; `taxon schedule` draws it."},
        p.schedule);
  visit(Field{.key = "cut",
              .sentence = "Segments of the model (`taxon profile` lists them) that begin a stage after the "
                          "first, [h.1, h.2]; empty: stages take as equally long as possible."},
        p.cut);
  visit(
      Field{.key = "activations",
            .sentence = "From its forward to its backward pass a stage keeps all that the latter reads of a "
                        "micro-batch, or its input alone, and computes the rest again: less memory, a "
                        "forward pass more (Chen et al., arXiv 1604.06174)."},
      p.activations);
}

template <Like<TransportPlan> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "kind",
              .sentence = "auto, shm (one host), posix, tcp, ucx-tcp, grpc, grpc-unary (docs/transport.md)."},
        p.kind);
  visit(
      Field{.key = "checksum", .sentence = "What a checksum protects: the header alone, or the payload too."},
      p.checksum);
  visit(
      Field{.key = "encryption",
            .sentence = "Of all that travels between hosts: none, or TLS 1.3 whose key comes from the job's "
                        "secret (auto, posix, tcp; with shm nothing leaves the host)."},
      p.encryption);
  visit(
      Field{.key = "connections",
            .sentence = "TCP connections from one rank to another on another host; 0: as many as the length "
                        "and speed of the path need.",
            .min = 0,
            .max = 64},
      p.connections);
  visit(
      Field{.key = "trace_allocations",
            .sentence = "libtorch makes gradients in the memory that they travel from, by the allocations "
                        "that earlier steps showed (docs/transport.md, the analyser); false: each is copied "
                        "there in every step, with the same bits."},
      p.trace_allocations);
}

template <Like<ControlPlan> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "address",
              .sentence = "Of rank 0, as host:port or host, where MASTER_ADDR is not set; empty: what "
                          "the launcher says."},
        p.address);
  visit(Field{.key = "secret_file",
              .sentence = "File with the job's secret; empty: TAXON_SECRET or TAXON_SECRET_FILE."},
        p.secret_file);
  visit(Field{.key = "join_seconds",
              .sentence = "All ranks must have joined by then.",
              .min = 0,
              .max = 1e6,
              .above_min = true},
        p.join_seconds);
  visit(Field{.key = "silence_seconds",
              .sentence = "A rank that says nothing for so long is reported.",
              .min = 0,
              .max = 1e6,
              .above_min = true},
        p.silence_seconds);
  visit(Field{.key = "hang_seconds",
              .sentence = "A wait of so long is reported.",
              .min = 0,
              .max = 1e6,
              .above_min = true},
        p.hang_seconds);
  visit(Field{.key = "deadline_seconds",
              .sentence = "A silent rank or a stuck wait ends the run after this.",
              .min = 0,
              .max = 1e6,
              .above_min = true},
        p.deadline_seconds);
}

template <Like<EvaluationPlan> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "every_epochs",
              .sentence = "Accuracy and loss after so many epochs; 0: only at the end.",
              .min = 0,
              .max = 1e6},
        p.every_epochs);
  visit(Field{.key = "batch", .sentence = "Samples per forward pass.", .min = 1, .max = 1e9}, p.batch);
  visit(Field{.key = "split",
              .sentence = "Samples whose scores and loss are reported; validation: what data.validation sets "
                          "aside."},
        p.split);
}

template <Like<CheckpointPlan> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "every_epochs",
              .sentence = "Checkpoint after so many epochs; 0: only at the end and when interrupted.",
              .min = 0,
              .max = 1e6},
        p.every_epochs);
  visit(Field{.key = "every_steps", .sentence = "And after so many steps; 0: not.", .min = 0, .max = 1e12},
        p.every_steps);
  visit(Field{.key = "keep", .sentence = "Older checkpoints are removed.", .min = 1, .max = 1e6}, p.keep);
}

template <Like<ReportPlan> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "every_seconds",
              .sentence = "Seconds between progress lines off a terminal.",
              .min = 0,
              .max = 1e6,
              .above_min = true},
        p.every_seconds);
  visit(Field{.key = "metrics_steps",
              .sentence = "Steps between lines of metrics.jsonl and TensorBoard points.",
              .min = 1,
              .max = 1e9},
        p.metrics_steps);
  visit(Field{.key = "tensorboard", .sentence = "Write TensorBoard event files."}, p.tensorboard);
  visit(Field{.key = "trace", .sentence = "Write trace.json for Chrome or Perfetto."}, p.trace);
  visit(Field{.key = "hash_steps",
              .sentence = "Steps between comparisons of the parameters' hashes over the ranks; 0: only at "
                          "the end.",
              .min = 0,
              .max = 1e9},
        p.hash_steps);
}

template <Like<SlowdownPlan> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "rank", .sentence = "The slow worker; -1: every one.", .min = -1, .max = 1 << 20},
        p.rank);
  visit(Field{.key = "slowdown",
              .sentence = "Its compute kernels take so many times as long.",
              .min = 1,
              .max = 1e6},
        p.slowdown);
  visit(Field{.key = "probability",
              .sentence = "That a kernel is hit, drawn for each from the seed.",
              .min = 0,
              .max = 1,
              .above_min = true},
        p.probability);
}

template <Like<EmulationPlan> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "cores",
              .sentence = "Compute kernels take their processor time over these, as on a host with so many "
                          "cores, if this one gives a worker as much; 0: as long as they take.",
              .min = 0,
              .max = 1e6},
        p.cores);
  visit(Field{.key = "slow", .sentence = "Workers that are slower than the others."}, p.slow);
}

template <Like<Plan> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "name", .sentence = "Name of the run: of its output folder and in reports."}, p.name);
  visit(Field{.key = "seed", .sentence = "Everything random in the run follows from it."}, p.seed);
  visit(Field{.key = "threads",
              .sentence =
                  "Compute threads per worker; 0: the host's cores divided by the workers that may use them.",
              .min = 0,
              .max = 4096},
        p.threads);
  visit(
      Field{.key = "cores",
            .sentence = "Where a worker's threads run: on its own share of its host's cores (share), unless "
                        "the launcher has bound it already or `threads` need more, or on all (all: for hosts "
                        "that several jobs share)."},
      p.cores);
  visit(Field{.key = "waiting",
              .sentence =
                  "How compute threads wait for their next work: active, by polling for some "
                  "milliseconds, which is fast where nobody else wants the cores; passive, asleep; auto: "
                  "active, and passive while others are seen to use the cores or a quota is used up."},
        p.waiting);
  visit(Field{.key = "on_divergence",
              .sentence = "A loss or a gradient that is not finite. stop: ends the run and saves no such "
                          "weights; skip: the "
                          "step changes nothing on any rank (gradients then travel only when all ranks have "
                          "theirs; a worker "
                          "that keeps no step with others skips alone); ignore: training goes on with it."},
        p.on_divergence);
  visit(Field{.key = "model", .sentence = "What is trained."}, p.model);
  visit(Field{.key = "task",
              .sentence = "What it is trained and judged by; a plain word is a task's name.",
              .word = "name"},
        p.task);
  visit(Field{.key = "data", .sentence = "On what."}, p.data);
  visit(Field{.key = "batch", .sentence = "Samples per step."}, p.batch);
  visit(Field{.key = "precision", .sentence = "Types of numbers."}, p.precision);
  visit(Field{.key = "optimiser", .sentence = "How gradients change the weights."}, p.optimiser);
  visit(Field{.key = "learning_rate",
              .sentence = "The learning rate, as a function of the samples that the whole job consumed."},
        p.learning_rate);
  visit(Field{.key = "length", .sentence = "How long to train."}, p.length);
  visit(Field{.key = "mesh", .sentence = "How workers are laid out; an axis of 0 takes what remains."},
        p.mesh);
  visit(
      Field{.key = "pipeline", .sentence = "What the stages of a model do, where mesh.pipeline is above 1."},
      p.pipeline);
  visit(Field{.key = "exchange", .sentence = "How workers combine their gradients."}, p.exchange);
  visit(Field{.key = "transport", .sentence = "How bytes travel."}, p.transport);
  visit(Field{.key = "control", .sentence = "How workers find and watch each other."}, p.control);
  visit(Field{.key = "evaluation", .sentence = "When the model is tested."}, p.evaluation);
  visit(Field{.key = "checkpoint", .sentence = "When the run's state is saved."}, p.checkpoint);
  visit(Field{.key = "report", .sentence = "What the run says about itself."}, p.report);
  visit(
      Field{.key = "emulation", .sentence = "Slower hosts that this one plays, to compare systems on them."},
      p.emulation);
  visit(
      Field{.key = "resolved",
            .sentence = "What the run decided from the plan, so that it can be repeated exactly. Written by "
                        "Taxon; empty in recipes."},
      p.resolved);
}

/// T is a struct of keys: visit_fields takes it.
template <class T>
concept Section = requires(T& section) {
  visit_fields(section, [](const Field&, auto&) {});
};

}  // namespace taxon::plan
