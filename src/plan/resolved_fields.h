#pragma once

#include "plan/field.h"
#include "plan/plan.h"

namespace taxon::plan {

// Keys of what a run decided; see plan/fields.h.

template <Like<BucketPlan> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "parameters", .sentence = "Parameters in the order in which they lie in the bucket."},
        p.parameters);
  visit(Field{.key = "part", .sentence = "Which part of a single parameter, from 0.", .min = 0}, p.part);
  visit(Field{.key = "parts", .sentence = "Parts that the parameter is cut into.", .min = 1}, p.parts);
  visit(Field{.key = "bytes", .sentence = "Size of the bucket.", .min = 0, .unit = Unit::Bytes}, p.bytes);
  visit(Field{.key = "collectives",
              .sentence = "The algorithms chosen for it, in the order of their use: outward, then back."},
        p.collectives);
  visit(Field{.key = "reasons",
              .sentence = "By level with codec auto: why the bucket travels through its codec, or as it is; "
                          "of linear layers: why as sufficient factors, or as they are."},
        p.reasons);
  visit(Field{.key = "factors",
              .sentence = "Size of the sufficient factors that a worker hands in in its place; 0: it travels "
                          "as it is.",
              .min = 0,
              .unit = Unit::Bytes},
        p.factors);
}

template <Like<ResolvedPlan> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "world_size", .sentence = "Workers of the run.", .min = 0}, p.world_size);
  visit(Field{.key = "train_samples", .sentence = "Samples of its training set.", .min = 0}, p.train_samples);
  visit(Field{.key = "transport", .sentence = "The transport in use."}, p.transport);
  visit(Field{.key = "overlap", .sentence = "What communication hides behind."}, p.overlap);
  visit(Field{.key = "node", .sentence = "Ranks per node; 0: no level asks.", .min = 0}, p.node);
  visit(
      Field{.key = "optimiser_begun",
            .sentence = "Steps before the optimiser's state was zero: not 0 where a run resumed without it.",
            .min = 0},
      p.optimiser_begun);
  visit(Field{.key = "buckets", .sentence = "In the order in which the backward pass completes them."},
        p.buckets);
}

}  // namespace taxon::plan
