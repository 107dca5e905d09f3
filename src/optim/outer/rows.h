#pragma once

#include "optim/outer.h"

namespace taxon::optim {

// The rows of the outer table, one file for each family.
std::unique_ptr<OuterRule> make_average(const plan::LevelPlan& plan, const OuterContext& context);
std::unique_ptr<OuterRule> make_block(const plan::LevelPlan& plan, const OuterContext& context);
std::unique_ptr<OuterRule> make_block_nesterov(const plan::LevelPlan& plan, const OuterContext& context);
std::unique_ptr<OuterRule> make_outer_momentum(const plan::LevelPlan& plan, const OuterContext& context);
std::unique_ptr<OuterRule> make_outer_nesterov(const plan::LevelPlan& plan, const OuterContext& context);
std::unique_ptr<OuterRule> make_slowmo(const plan::LevelPlan& plan, const OuterContext& context);
std::unique_ptr<OuterRule> make_elastic(const plan::LevelPlan& plan, const OuterContext& context);
std::unique_ptr<OuterRule> make_accumulated(const plan::LevelPlan& plan, const OuterContext& context);

/// Calls `body(T zero)` for the floating type of `arena`, which is a master's: float32 or float64.
template <class Body>
void for_master(const tensor::Arena& arena, Body&& body) {
  dispatch(arena.type(), [&](auto zero) {
    if constexpr (std::is_floating_point_v<decltype(zero)>) body(zero);
  });
}

}  // namespace taxon::optim
