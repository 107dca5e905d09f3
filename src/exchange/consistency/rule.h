#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "plan/catalogue.h"

namespace taxon::exchange {

/// One worker at one unit, as the unit's owner knows it.
struct WorkerClock {
  std::int64_t clock = 0;      // of its contributions, those that updates took; further where it jumped
  int pooled = 0;              // contributions that wait for an update
  bool takes_part = true;      // false: it pauses, or is gone
  bool present = true;         // false: it is gone
  std::int64_t handed_in = 0;  // contributions, repeated ones once
  /// What it has done, taken in or not.
  std::int64_t reached() const { return clock + pooled; }
};
using WorkerClocks = std::span<const WorkerClock>;

/// Who waits for whom at one unit of a parameter server, and what makes an update: a model of consistency.
/// What it answers depends on what it was told before and on nothing else (no clock, no network, no chance of
/// its own), so that a run whose order is followed hears the same. ConsistencyController asks it, and keeps
/// what holds for every rule: nothing counts twice, who pauses or is lost holds nobody up, and the worker
/// that is furthest behind can go on.
class ConsistencyRule {
 public:
  static constexpr std::int64_t kUnbounded = plan::ConsistencyBounds::kUnbounded;
  static constexpr int kAll = 0;
  virtual ~ConsistencyRule() = default;

  /// Clocks that `worker` may be ahead of the common clock and still go on: at least 0, or kUnbounded. A
  /// contribution that is more than that behind the common clock counts no more.
  virtual std::int64_t lead(int worker, WorkerClocks workers) const = 0;
  /// The common clock is that of the quorum-th fastest worker that takes part, of those that are left if they
  /// are fewer; kAll: of the slowest. Always kAll or never.
  virtual int quorum(WorkerClocks) const { return kAll; }
  /// Contributions that make the next update, fewer where fewer workers are left; kAll: as many as workers.
  virtual int apply(WorkerClocks) const { return kAll; }
  /// False: `other` may be as far behind as it likes when `worker` goes on; the common clock of `worker` is
  /// that of the others.
  virtual bool waits_for(int /*worker*/, int /*other*/, WorkerClocks) const { return true; }
  /// A contribution of `worker` came at `now` and counts: it is among its `pooled`. `now` is time by the
  /// owner's executor where the row says `reads_times`, else 0.
  virtual void arrived(int, Instant, WorkerClocks) {}
  /// What it made of what it was told, for hang reports: ", worker 0 may lead by 4". Empty: nothing.
  virtual std::string describe(WorkerClocks) const { return {}; }
};

/// What a rule is made for.
struct ConsistencyContext {
  int workers = 1;
  std::uint64_t seed = 0;  // of the plan
  std::uint32_t unit = 0;  // a rule decides for one unit alone, since an owner knows no more
};

/// A consistency rule, described: whatever else needs to know of it asks its row.
struct ConsistencyRow {
  std::string_view name;
  std::string_view sentence;
  std::unique_ptr<ConsistencyRule> (*make)(const plan::LevelPlan& level, const ConsistencyContext& context);
  /// What it allows at most, and its words on the axis of scheduling; null: those of workers in step.
  plan::ConsistencyBounds (*bounds)(const plan::LevelPlan& level);
  plan::ConsistencyBounds bounds_of(const plan::LevelPlan& level) const {
    return bounds != nullptr ? bounds(level) : plan::ConsistencyBounds();
  }
  bool reads_times = false;  // when contributions came matters: a recorded order has the times too
  std::vector<plan::OptionKey> (*options)() = nullptr;  // keys of its own in a level's section
  std::span<const plan::LevelRule> rules = {};          // what makes no sense with it
};
/// One file each in exchange/consistency. exchange/consistency/table.cc.
std::span<const ConsistencyRow> consistency_table();
/// The row of that name, one's own first. Throws Error{Usage} for a name that nothing has.
const ConsistencyRow& find_consistency(std::string_view name, std::span<const ConsistencyRow> own = {});
/// For plan::check_plan().
std::vector<plan::Catalogue::Consistency> known_consistencies(std::span<const ConsistencyRow> own = {});

}  // namespace taxon::exchange
