#include "program/program.h"

namespace taxon::program {

std::vector<Action> with_transfers(const std::vector<Action>& actions, const std::vector<int>& rank_of) {
  const auto rank = [&](int stage) { return rank_of[static_cast<std::size_t>(stage)]; };
  const int last = static_cast<int>(rank_of.size()) - 1;
  std::vector<Action> all;
  for (const Action& action : actions) {
    const int stage = action.stage;
    const bool from_before = stage > 0 && rank(stage - 1) != rank(stage);
    const bool to_next = stage < last && rank(stage + 1) != rank(stage);
    const auto add = [&](ActionKind kind) { all.push_back({kind, stage, action.micro}); };
    const bool forward = action.kind == ActionKind::Forward;
    const bool backward = makes_input_gradient(action.kind);
    if (forward && from_before) add(ActionKind::ReceiveActivation);
    if (backward && to_next) add(ActionKind::ReceiveGradient);
    all.push_back(action);
    if (forward && to_next) add(ActionKind::SendActivation);
    if (backward && from_before) add(ActionKind::SendGradient);
  }
  return all;
}

}  // namespace taxon::program
