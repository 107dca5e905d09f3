#pragma once

#include "plan/field.h"
#include "plan/plan.h"

namespace taxon::plan {

// Keys of the exchange; see plan/fields.h.

template <Like<CodecPlan> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "name",
              .sentence =
                  "none: gradients travel as they are; auto: each bucket as they are or by the codec of "
                  "`of`, whichever is faster; or a codec, whose own keys stand in this section too."},
        p.name);
  visit(
      Field{.key = "of",
            .sentence = "Codec auto: the codec of the buckets that it makes faster, with the options of this "
                        "section; the other buckets travel as they are."},
      p.of);
  visit(Field{.key = "feedback",
              .sentence =
                  "memory: what did not travel is added to the next gradient; none: it is lost; difference: "
                  "what travels is how far the gradient is from what travelled before, and all know the sum "
                  "of that (EF21); auto: memory where the codec is biased and sends magnitudes."},
        p.feedback);
  visit(
      Field{.key = "decay",
            .sentence = "Of the memory of errors: the share of itself that it keeps from step to step. Below "
                        "1 it is a momentum that what travelled is taken out of (DeMo, SparseLoCo).",
            .min = 0,
            .max = 1,
            .above_min = true},
      p.decay);
  visit(Field{.key = "momentum",
              .sentence = "Momentum correction (DGC): the memory adds up velocities of this decay; the "
                          "optimiser must have none.",
              .min = 0,
              .max = 1,
              .below_max = true},
        p.momentum);
  visit(Field{.key = "masking",
              .sentence = "Momentum correction: velocities are cleared where entries travelled."},
        p.masking);
  visit(Field{.key = "global",
              .sentence =
                  "The codec's tensors are one bucket, whatever exchange.bucket_bytes and slice_bytes say: "
                  "one sketch and one choice of entries for the whole model, once all gradients are there."},
        p.global);
  visit(Field{.key = "warmup_density",
              .sentence = "Densities of the beginning, each for warmup_steps.",
              .min = 0,
              .max = 1,
              .above_min = true},
        p.warmup_density);
  visit(Field{.key = "warmup_steps",
              .sentence = "Steps of each density of warmup_density.",
              .min = 1,
              .max = 1e12},
        p.warmup_steps);
  visit(Field{.key = "dense_steps",
              .sentence = "Steps at the beginning in which everything travels as it is.",
              .min = 0,
              .max = 1e12},
        p.dense_steps);
  visit(Field{.key = "dense_below",
              .sentence =
                  "Tensors of fewer values (biases, norms) travel as they are, in buckets of their own, "
                  "and so do buckets of fewer.",
              .min = 0,
              .max = 1e15},
        p.dense_below);
  visit(Field{.key = "answer",
              .sentence =
                  "Topology servers: the codec of what travels back, with the same options: how far the "
                  "weights went from what the worker has; none: the weights as they are."},
        p.answer);
  visit(Field{.key = "force",
              .sentence = "Compress inside a node too, where it mostly costs more than it saves."},
        p.force);
}

template <Like<LevelPlan> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "group",
              .sentence = "Who meets: data, all ranks; node, those of one node; across, those of equal "
                          "position in every node."},
        p.group);
  visit(Field{.key = "topology",
              .sentence =
                  "Who owns what, and who talks to whom: a topology of the table below, whose own keys stand "
                  "in this section too."},
        p.topology);
  visit(Field{.key = "collective",
              .sentence =
                  "Algorithm of sum and spread, or auto: chosen once per bucket by its cost; with order: "
                  "priority and overlap: forward, one that lets more urgent buckets pass, if it is "
                  "about as fast."},
        p.collective);
  visit(
      Field{.key = "graph",
            .sentence = "Topology gossip: who mixes with whom: ring, both neighbours; exponential, one at a "
                        "distance that doubles; dissemination, the same among ranks in a new order each "
                        "time; random, a random partner; push, one whom each draws by itself (GoSGD)."},
      p.graph);
  visit(Field{.key = "rule",
              .sentence =
                  "sum: the sum of gradients goes on to the optimiser. Otherwise replicas are trained apart "
                  "and meet here, last of all levels, by an outer rule of the table below."},
        p.rule);
  visit(Field{.key = "period", .sentence = "Steps from one meeting to the next.", .min = 1, .max = 1e9},
        p.period);
  visit(Field{.key = "warmup_steps",
              .sentence = "Steps at the beginning after each of which replicas meet (post-local SGD).",
              .min = 0,
              .max = 1e12},
        p.warmup_steps);
  visit(Field{.key = "rate",
              .sentence =
                  "Of the outer rule: zeta of block momentum, the outer learning rate, alpha of slowmo, "
                  "beta of elastic (each replica moves by beta / replicas), the step of accumulated.",
              .min = 0,
              .max = 1e6,
              .above_min = true},
        p.rate);
  visit(Field{.key = "momentum",
              .sentence = "Of the outer rule: eta of block momentum, the outer momentum, beta of slowmo.",
              .min = 0,
              .max = 1},
        p.momentum);
  visit(Field{.key = "inner_state",
              .sentence = "The optimiser's state of a replica at a meeting: keep, reset or average."},
        p.inner_state);
  visit(Field{.key = "fragments",
              .sentence =
                  "Parts of the model that meet one after the other within a period (streaming DiLoCo).",
              .min = 1,
              .max = 1 << 20},
        p.fragments);
  visit(Field{.key = "delay",
              .sentence = "Steps that replicas go on for between a meeting and the adoption of what it gave, "
                          "which hides it.",
              .min = 0,
              .max = 1e9},
        p.delay);
  visit(Field{.key = "mixing",
              .sentence = "Share of its own weights that a replica keeps when it adopts.",
              .min = 0,
              .max = 1},
        p.mixing);
  visit(
      Field{.key = "consistency",
            .sentence = "Topology servers: when what a worker hands in counts, and when it may go on, a row "
                        "of the table below."},
      p.consistency);
  visit(Field{.key = "late",
              .sentence =
                  "Topology servers: what becomes of a contribution that was computed some updates ago, a "
                  "row of the table below."},
        p.late);
  visit(Field{.key = "factors",
              .sentence =
                  "Gradients of linear layers' weights travel as sufficient factors, the inputs and the "
                  "gradients at the outputs for each sample, of which everybody makes the sum: auto, where "
                  "these are fewer numbers than an all-reduce moves (Poseidon's rule); always; none."},
        p.factors);
  visit(
      Field{.key = "codec",
            .sentence =
                "What travels in place of the values: a codec's name, or a section with it and its options.",
            .word = "name"},
      p.codec);
}

template <Like<ExchangePlan> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "bucket_bytes",
              .sentence = "Gradients that complete one after the other travel together up to this size.",
              .min = 1,
              .max = 1e12,
              .unit = Unit::Bytes},
        p.bucket_bytes);
  visit(Field{.key = "slice_bytes",
              .sentence = "A larger gradient travels in equal parts of at most this size, each a bucket.",
              .min = 64,
              .max = 1e12,
              .unit = Unit::Bytes},
        p.slice_bytes);
  visit(Field{.key = "in_flight", .sentence = "Buckets that are exchanged at once.", .min = 1, .max = 1024},
        p.in_flight);
  visit(Field{.key = "order",
              .sentence = "Which waiting bucket goes first: priority, the one that the next forward pass "
                          "reads first; backward, the one that the backward pass completed first."},
        p.order);
  visit(Field{.key = "overlap",
              .sentence =
                  "What communication hides behind: backward, the rest of the backward pass; forward, "
                  "the next forward pass too, which then waits layer by layer; auto: backward where all "
                  "workers share memory (little to hide, and cores to lose), forward elsewhere."},
        p.overlap);
  visit(Field{.key = "gradients",
              .sentence = "Memory of gradients: whole, as much as the weights; ring, a few buckets that are "
                          "used again as soon as their sums are with their owners (ZeRO-2)."},
        p.gradients);
  visit(Field{.key = "delay",
              .sentence = "Steps between a gradient and its update: 1 hides communication behind all of the "
                          "next step, which computes with weights one update older.",
              .min = 0,
              .max = 1},
        p.delay);
  visit(Field{.key = "levels", .sentence = "Who sums with whom, from the inside outward."}, p.levels);
}

}  // namespace taxon::plan
