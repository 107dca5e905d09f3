#include "program/action.h"

#include <fmt/format.h>

#include "base/check.h"

namespace taxon::program {

bool computes(ActionKind kind) { return kind <= ActionKind::BackwardWeight; }

bool sends(ActionKind kind) { return kind == ActionKind::SendActivation || kind == ActionKind::SendGradient; }

bool receives(ActionKind kind) {
  return kind == ActionKind::ReceiveActivation || kind == ActionKind::ReceiveGradient;
}

bool makes_input_gradient(ActionKind kind) {
  return kind == ActionKind::Backward || kind == ActionKind::BackwardInput;
}

bool makes_weight_gradient(ActionKind kind) {
  return kind == ActionKind::Backward || kind == ActionKind::BackwardWeight;
}

Action counterpart(const Action& action) {
  TAXON_CHECK(transfers(action.kind), "action=", describe(action));
  Action other = action;
  switch (action.kind) {
    case ActionKind::SendActivation:
      other.kind = ActionKind::ReceiveActivation;
      ++other.stage;
      break;
    case ActionKind::ReceiveActivation:
      other.kind = ActionKind::SendActivation;
      --other.stage;
      break;
    case ActionKind::SendGradient:
      other.kind = ActionKind::ReceiveGradient;
      --other.stage;
      break;
    default:
      other.kind = ActionKind::SendGradient;
      ++other.stage;
  }
  return other;
}

std::string describe(const Action& action) {
  static constexpr std::string_view kWords[] = {"forward pass",
                                                "backward pass",
                                                "backward pass to inputs",
                                                "backward pass to weights",
                                                "sending of activations",
                                                "receipt of activations",
                                                "sending of gradients",
                                                "receipt of gradients",
                                                "exchange",
                                                "update"};
  return fmt::format("{} of micro-batch {} at stage {}", kWords[static_cast<std::size_t>(action.kind)],
                     action.micro, action.stage);
}

}  // namespace taxon::program
