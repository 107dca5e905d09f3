#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "program/schedule.h"

namespace taxon::program {

// What several schedules are made of.

/// One forward, one backward: rank r of p begins with p - r - 1 forward passes, then takes one forward and
/// one backward pass in turn, and ends with the backward passes that are left. One stage a rank.
std::vector<Action> one_forward_one_backward(const Shape& shape, int rank);

/// One update of all micro-batches: each stage's exchange begins after its last gradient of weights, and the
/// updates stand at the end.
std::vector<Action> with_flush(std::vector<Action> passes);

/// An update after every `micros_per_update`th backward pass of the rank's stage; micros_per_update divides
/// the micro-batches.
std::vector<Action> with_updates(const std::vector<Action>& passes, int micros_per_update);

/// Fewer micro-batches than stages leave ranks without work even between start and end.
void require_micros(std::string_view schedule, const Shape& shape, std::vector<std::string>& problems);

}  // namespace taxon::program
