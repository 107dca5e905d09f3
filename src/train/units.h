#pragma once

#include <cstdint>
#include <string>

#include "plan/plan.h"
#include "task/wait.h"

namespace taxon::train {

/// Units of what travels beside the buckets (whose units count from 0). Tags are keyed by unit, so these must
/// not collide.
inline constexpr std::uint32_t kAgreementUnit = 0x40000000;
inline constexpr std::uint32_t kRosterUnit = 0x40000020;
inline constexpr std::uint32_t kVoteUnit = 0x40000001;
inline constexpr std::uint32_t kWeightsUnit = 0x40000002;
inline constexpr std::uint32_t kLedgerUnit = 0x40000004;

/// A bucket's on the way between its owners and a checkpoint: this and its number.
inline constexpr std::uint32_t kStateUnit = 0x50000000;

/// What passes of a divided model hand to each other: this, a kind times kMostPasses, and the number of the
/// receiving stage and the micro-batch.
inline constexpr std::uint32_t kPassUnit = 0x70000000;
enum class Handed { Activations, Gradients, Evaluated };
std::uint32_t pass_unit(Handed what, int stage, int micro, int micros);
/// What the members of a tensor group make of a piece's outputs, or of the gradients of its inputs.
inline constexpr std::uint32_t kPieceUnit = 0x78000000;
/// Gradients of which several ranks of a replica have summands: this and their number.
inline constexpr std::uint32_t kSummandUnit = 0x7c000000;

/// What a unit is, in words; empty for one that nobody uses. `plan` is resolved, by the rank whose unit it
/// is.
std::string name_unit(std::int64_t unit, const plan::Plan& plan);

/// The names of a run's units in reports: a bucket with its parameters, its collective and the step, which is
/// `first_step` + 1 at the first of `updates` uses. Steps that overlap (exchange.delay) are not told apart,
/// nor rounds in which replicas meet.
task::UnitNames unit_names(plan::Plan plan, std::int64_t first_step, int updates = 1);

}  // namespace taxon::train
