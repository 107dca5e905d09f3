#include "program/rows/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace taxon::program {

std::vector<Action> one_forward_one_backward(const Shape& shape, int rank) {
  const int ahead = std::min(shape.stages - rank - 1, shape.micros);
  std::vector<Action> passes;
  for (int micro = 0; micro < ahead; ++micro) passes.push_back({ActionKind::Forward, rank, micro});
  for (int micro = ahead; micro < shape.micros; ++micro) {
    passes.push_back({ActionKind::Forward, rank, micro});
    passes.push_back({ActionKind::Backward, rank, micro - ahead});
  }
  for (int micro = shape.micros - ahead; micro < shape.micros; ++micro)
    passes.push_back({ActionKind::Backward, rank, micro});
  return passes;
}

std::vector<Action> with_flush(std::vector<Action> passes) {
  std::map<int, Action> last;  // gradient of weights, by stage
  for (const Action& pass : passes)
    if (makes_weight_gradient(pass.kind)) last[pass.stage] = pass;
  std::vector<Action> all;
  for (const Action& pass : passes) {
    all.push_back(pass);
    if (makes_weight_gradient(pass.kind) && last[pass.stage] == pass)
      all.push_back({ActionKind::Exchange, pass.stage, pass.micro});
  }
  for (const auto& [stage, pass] : last) all.push_back({ActionKind::Update, stage, pass.micro, 1});
  return all;
}

std::vector<Action> with_updates(const std::vector<Action>& passes, int micros_per_update) {
  std::vector<Action> all;
  for (const Action& pass : passes) {
    all.push_back(pass);
    if (!makes_weight_gradient(pass.kind) || (pass.micro + 1) % micros_per_update != 0) continue;
    all.push_back({ActionKind::Exchange, pass.stage, pass.micro});
    all.push_back({ActionKind::Update, pass.stage, pass.micro, (pass.micro + 1) / micros_per_update});
  }
  return all;
}

void require_micros(std::string_view schedule, const Shape& shape, std::vector<std::string>& problems) {
  if (shape.micros < shape.stages)
    problems.push_back(
        fmt::format("schedule {} needs at least as many micro-batches as stages: {} are fewer than {}",
                    schedule, shape.micros, shape.stages));
}

}  // namespace taxon::program
