#include "train/start/exchange_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "exchange/levels/levels.h"
#include "exchange/sync_schedule.h"

namespace taxon::train {
namespace {

/// What of the exchange decides how gradients are cut into buckets.
auto cut_by(const plan::ExchangePlan& plan) {
  std::vector<std::tuple<bool, std::string, bool, std::int64_t, plan::FactorUse>> levels;
  for (const plan::LevelPlan& level : plan.levels) {
    const plan::CodecPlan& codec = level.codec;
    levels.emplace_back(codec.name == plan::CodecPlan().name, codec.name == codec.candidate() ? "" : codec.of,
                        codec.global, codec.dense_below, level.factors);
  }
  return std::tuple(plan.bucket_bytes, plan.slice_bytes, std::move(levels));
}

}  // namespace

bool cuts_alike(const plan::ExchangePlan& before, const plan::ExchangePlan& now) {
  return cut_by(before) == cut_by(now);
}

void require_place_for_delayed(const plan::ExchangePlan& plan) {
  if (!exchange::served_level(plan.levels) && plan.gradients != plan::GradientMemory::Ring) return;
  throw Error(
      ErrorKind::Usage,
      "the checkpoint holds sums of gradients whose update was delayed, which neither servers nor "
      "exchange.gradients: ring can take over: resume once with exchange.gradients: whole and no servers");
}

void require_same_meetings(const plan::LevelPlan& before, const plan::LevelPlan& now, std::int64_t steps) {
  auto underway = [steps](const plan::LevelPlan& level) {
    std::vector<std::int64_t> begun;
    for (int fragment = 0; fragment < level.fragments; ++fragment)
      begun.push_back(exchange::SyncSchedule(level).underway(fragment, steps).value_or(0));
    if (std::all_of(begun.begin(), begun.end(), [](std::int64_t step) { return step == 0; })) begun.clear();
    return begun;
  };
  if (underway(before) == underway(now)) return;
  throw Error(
      ErrorKind::Usage,
      fmt::format(
          "the checkpoint's replicas wait for answers of other meetings than this plan's: resume with "
          "period {}, fragments {}, delay {} and warmup_steps {}",
          before.period, before.fragments, before.delay, before.warmup_steps));
}

}  // namespace taxon::train
