#include "train/units.h"

#include <fmt/format.h>

#include "exchange/compression/link_probe.h"
#include "exchange/gathering.h"
#include "exchange/levels/topology.h"
#include "exchange/outer_loop.h"
#include "exchange/server/server_client.h"
#include "exchange/topologies/pairwise.h"
#include "program/schedule.h"

namespace taxon::train {
namespace {

constexpr auto kPassesOfAKind = static_cast<std::uint32_t>(program::kMostPasses);

std::string name_pass(std::int64_t unit, int micros) {
  static constexpr const char* kHanded[] = {"activations for", "gradients for", "evaluated activations for"};
  const std::int64_t pass = (unit - kPassUnit) % kPassesOfAKind;
  return fmt::format("{} stage {}, micro-batch {}", kHanded[(unit - kPassUnit) / kPassesOfAKind % 3],
                     pass / micros, pass % micros);
}

}  // namespace

std::uint32_t pass_unit(Handed what, int stage, int micro, int micros) {
  return kPassUnit + static_cast<std::uint32_t>(what) * kPassesOfAKind +
         static_cast<std::uint32_t>(stage * micros + micro);
}

std::string name_unit(std::int64_t unit, const plan::Plan& plan) {
  const auto buckets = static_cast<std::int64_t>(plan.resolved.buckets.size());
  if (unit >= kSummandUnit) return "a gradient of which several ranks of a replica have summands";
  if (unit >= kPieceUnit) return fmt::format("a tensor split over ranks, in piece {}", unit - kPieceUnit);
  if (unit >= kPassUnit) return name_pass(unit, plan.batch.micro_batches);
  if (unit >= kStateUnit && unit < kStateUnit + buckets)
    return "the optimiser's state of " + name_unit(unit - kStateUnit, plan);
  if (unit >= exchange::kParametersUnit && unit < exchange::kParametersUnit + buckets)
    return "the parameters of " + name_unit(unit - exchange::kParametersUnit, plan);
  if (unit >= exchange::kInnerStateUnit)
    return "a replica's state of " +
           name_unit((unit - exchange::kInnerStateUnit) % exchange::kBucketsPerState, plan);
  if (unit >= exchange::kConsensusUnit && unit < exchange::kConsensusUnit + buckets)
    return "what stands for the model, " + name_unit(unit - exchange::kConsensusUnit, plan);
  if (unit >= 0 && unit < buckets)
    return fmt::format("bucket {} ({})", unit,
                       plan::describe(plan.resolved.buckets[static_cast<std::size_t>(unit)]));
  if (unit == kAgreementUnit) return "an agreement of all ranks";
  if (unit == kRosterUnit) return "the list of who is there";
  if (unit == kVoteUnit) return "the step's vote";
  if (unit == kLedgerUnit) return "the count of all workers' samples";
  if (unit == exchange::kServerControlUnit) return "a word to a server";
  if (unit == exchange::kPairsUnit) return "a word to a partner";
  if (unit == kWeightsUnit) return "the initial weights and state";
  if (unit == exchange::kProbeUnit) return "the probe of links";
  if (unit == exchange::kTotalUnit) return "the gradient's norm";
  return "";
}

task::UnitNames unit_names(plan::Plan plan, std::int64_t first_step) {
  return [plan = std::move(plan), first_step](std::int64_t unit, std::int64_t use) {
    const auto& buckets = plan.resolved.buckets;
    std::string name = name_unit(unit, plan);
    const bool is_bucket = unit >= 0 && unit < static_cast<std::int64_t>(buckets.size());
    if (!is_bucket) return name;
    std::vector<std::string> collectives = buckets[static_cast<std::size_t>(unit)].collectives;
    std::erase(collectives, "");  // of topologies that send their messages themselves
    if (!collectives.empty()) name += fmt::format(" by {}", fmt::join(collectives, ", "));
    const bool every_step = plan.exchange.delay == 0 && exchange::meeting_level(plan.exchange.levels).empty();
    return !every_step ? name : fmt::format("{}, step {}", name, first_step + use + 1);
  };
}

}  // namespace taxon::train
