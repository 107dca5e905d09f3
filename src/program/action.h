#pragma once

#include <cstdint>
#include <string>

#include "plan/choice.h"

namespace taxon::program {

/// What a rank can do in a step. A stage is a consecutive part of the model, counted from its input; a
/// micro-batch is a part of the samples that pass the stages together.
enum class ActionKind : std::uint8_t {
  Forward,            // a micro-batch passes the stage; what its backward pass needs is kept
  Backward,           // gradients of the stage's inputs and weights; what was kept is freed
  BackwardInput,      // of its inputs alone: what the stage before waits for
  BackwardWeight,     // of its weights alone, any time later: what was kept is freed
  SendActivation,     // the stage's output leaves for the rank of the next stage
  ReceiveActivation,  // the stage's input comes from the rank of the stage before
  SendGradient,       // the gradient of the stage's input leaves for the rank of the stage before
  ReceiveGradient,    // the gradient of the stage's output comes from the rank of the next stage
  Exchange,           // the stage's weight gradients are complete: from here on they may be reconciled with
                      // those of the data axis, beside what follows
  Update,             // the stage's weights become their next version, once its last exchange has ended
};

/// One of them. Plain data: whoever carries it out knows the stage's tensors.
struct Action {
  ActionKind kind = ActionKind::Forward;
  int stage = 0;
  int micro = 0;    // of an exchange or an update: the last micro-batch that it counts
  int version = 0;  // of weights that a pass uses: how many updates of the program are in them; of an update:
                    // that it makes
  friend bool operator==(const Action&, const Action&) = default;
};

/// True for those that take the rank's processors: passes.
bool computes(ActionKind kind);
bool sends(ActionKind kind);
bool receives(ActionKind kind);
inline bool transfers(ActionKind kind) { return sends(kind) || receives(kind); }
/// True for the two that make gradients of the stage's inputs, and those that make gradients of weights.
bool makes_input_gradient(ActionKind kind);
bool makes_weight_gradient(ActionKind kind);

/// The receive of a send at the other end, and the other way round. REQUIRES: transfers(action.kind).
Action counterpart(const Action& action);

/// "forward of micro-batch 3 at stage 1", for messages.
std::string describe(const Action& action);

}  // namespace taxon::program

/// As taxon schedule --json names them.
template <>
struct taxon::plan::Words<taxon::program::ActionKind> {
  static constexpr std::string_view all[] = {"forward",         "backward",         "backward_input",
                                             "backward_weight", "send_activation",  "receive_activation",
                                             "send_gradient",   "receive_gradient", "exchange",
                                             "update"};
};
