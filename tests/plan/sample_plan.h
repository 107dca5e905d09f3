#pragma once

#include "plan/plan.h"

namespace taxon::test {

/// Names as the tables of a full build have them.
inline plan::KnownNames known_names() {
  return {.models = {"mlp", "cnn", "resnet18", "perceptron"},
          .datasets = {"idx", "synthetic", "blobs"},
          .rules = {"sgd", "momentum", "nesterov", "adamw"},
          .schedules = {"constant", "step", "cosine"},
          .transports = {"tcp", "shm"},
          .outer_rules = {"average", "block_nesterov", "outer_nesterov", "elastic", "block", "accumulated"},
          .graphs = {"ring", "exponential"},
          .topologies = {{"all_reduce", {"ring", "tree", "direct"}},
                         {"sharded", {"ring", "direct"}},
                         {"adasum", {}},
                         {"gossip", {}},
                         {"pairs", {}},
                         {"significant", {}},
                         {"servers", {}}},
          .lates = {{"as_others", true, true, false},
                    {"less", true, false, false},
                    {"compensated", true, false, true},
                    {"moved", false, true, true}},
          .codecs = {{"int8", true, false},
                     {"qsgd", false, false},
                     {"top_k", true, true},
                     {"gtop_k", true, true, false, false, false},
                     {"count_sketch", true, true, false, true, false, true},
                     {"split_sketch", true, true, false, false, false, false},
                     {"sign_vote", true, false, true, false, false}}};
}

/// The least that a legal plan must say.
inline plan::Plan legal_plan() {
  plan::Plan plan;
  plan.batch.global = 128;
  plan.length.epochs = 1;
  return plan;
}

}  // namespace taxon::test
