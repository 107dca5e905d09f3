#include "faults/contributions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "exchange/consistency/rule.h"

namespace taxon::faults {
namespace {

using exchange::AsyncEvent;

/// What one unit's owner has done so far.
class Unit {
 public:
  explicit Unit(const ServerOracle& book) : book_(book), workers_(static_cast<std::size_t>(book.workers)) {}

  /// What is wrong with the act; empty: nothing.
  std::string check(const AsyncEvent& event) {
    switch (event.kind) {
      case AsyncEvent::Kind::Admit:
      case AsyncEvent::Kind::Drop:
        return arrive(event);
      case AsyncEvent::Kind::Update:
        return begin_update();
      case AsyncEvent::Kind::Apply:
        return apply(event);
      case AsyncEvent::Kind::Outdate:
        return outdate(event);
      case AsyncEvent::Kind::Lose:
        workers_[static_cast<std::size_t>(event.worker)].lost = true;
        go_on_together();
        return {};
      case AsyncEvent::Kind::Pause:
        workers_[static_cast<std::size_t>(event.worker)].paused = true;
        go_on_together();
        return {};
      default:
        return {};
    }
    return {};
  }

  std::string check_end() {
    if (!book_.complete) return {};
    if (auto wrong = begin_update(); !wrong.empty()) return wrong;
    for (std::size_t w = 0; w < workers_.size(); ++w)
      if (!workers_[w].admitted.empty())
        return fmt::format("never applied contribution {} of worker {}", *workers_[w].admitted.begin() + 1,
                           w);
    return {};
  }

  std::vector<std::int64_t> counts() const {
    std::vector<std::int64_t> counts;
    for (const Worker& worker : workers_) counts.push_back(worker.arrived);
    return counts;
  }

 private:
  struct Worker {
    std::int64_t arrived = 0, applied = 0;
    bool lost = false, paused = false;
    std::set<std::int64_t> admitted;  // and not applied yet
  };

  /// A pause lasts until the next contribution, or until all have paused.
  void go_on_together() {
    if (std::all_of(workers_.begin(), workers_.end(), [](const Worker& w) { return w.paused || w.lost; }))
      for (Worker& each : workers_) each.paused = false;
  }

  std::string arrive(const AsyncEvent& event) {
    Worker& worker = workers_[static_cast<std::size_t>(event.worker)];
    worker.paused = false;
    if (event.number != worker.arrived++)
      return fmt::format("took contribution {} of worker {} as its {}th", event.number + 1, event.worker,
                         worker.arrived);
    if (event.kind == AsyncEvent::Kind::Drop) {
      if (book_.dropping == Dropping::Allowed) return {};
      return fmt::format("dropped contribution {} of worker {}", event.number + 1, event.worker);
    }
    worker.admitted.insert(event.number);
    if (book_.staleness < 0 || book_.dropping == Dropping::Allowed) return {};
    for (std::size_t other = 0; other < workers_.size(); ++other)
      if (!workers_[other].lost && !workers_[other].paused &&
          workers_[other].applied < event.number - book_.staleness)
        return fmt::format("let worker {} go {} contributions ahead of worker {}", event.worker,
                           event.number - workers_[other].applied, other);
    return {};
  }

  std::string apply(const AsyncEvent& event) {
    Worker& worker = workers_[static_cast<std::size_t>(event.worker)];
    ++in_update_;
    ++worker.applied;
    if (worker.admitted.erase(event.number) == 1) return {};
    return fmt::format("applied contribution {} of worker {}, which {}", event.number + 1, event.worker,
                       event.number < worker.arrived ? "was applied or dropped before" : "had not come");
  }

  std::string outdate(const AsyncEvent& event) {
    if (book_.dropping != Dropping::Allowed)
      return fmt::format("dropped contribution {} of worker {}", event.number + 1, event.worker);
    if (workers_[static_cast<std::size_t>(event.worker)].admitted.erase(event.number) == 1) return {};
    return fmt::format("dropped contribution {} of worker {}, which was applied or dropped before",
                       event.number + 1, event.worker);
  }

  /// Ends the one before, too.
  std::string begin_update() {
    const int in_update = std::exchange(in_update_, 0);
    if (!book_.all_at_once || !std::exchange(updates_, true) || in_update == book_.workers) return {};
    return fmt::format("made an update of {} contributions", in_update);
  }

  const ServerOracle& book_;
  std::vector<Worker> workers_;
  int in_update_ = 0;
  bool updates_ = false;
};

}  // namespace

ServerOracle bookkeeping_of(const plan::LevelPlan& level, int workers) {
  ServerOracle book;
  book.workers = workers;
  const plan::ConsistencyBounds bounds = exchange::find_consistency(level.consistency).bounds(level);
  book.staleness = bounds.lead;
  book.dropping = bounds.drops() ? Dropping::Allowed : Dropping::Forbidden;
  book.all_at_once = bounds.in_step();
  return book;
}

std::vector<std::string> check_contributions(int server, const exchange::AsyncEvents& events,
                                             const ServerOracle& book) {
  std::map<std::int32_t, Unit> units;
  std::vector<std::string> found;
  std::set<std::int32_t> wrong;
  auto complain = [&](std::int32_t unit, const std::string& what) {
    if (!what.empty() && wrong.insert(unit).second)
      found.push_back(fmt::format("rank {} as the owner of bucket {} {}", server, unit, what));
  };
  for (const AsyncEvent& event : events)
    if (AsyncEvent::role_of(event.kind) == AsyncEvent::Role::Server)
      complain(event.unit, units.try_emplace(event.unit, book).first->second.check(event));
  for (auto& [number, unit] : units) complain(number, unit.check_end());
  return found;
}

std::vector<std::vector<std::int64_t>> count_contributions(const exchange::AsyncEvents& events, int workers) {
  std::vector<std::vector<std::int64_t>> counts;
  for (const AsyncEvent& event : events) {
    if (event.kind != AsyncEvent::Kind::Admit && event.kind != AsyncEvent::Kind::Drop) continue;
    const auto unit = static_cast<std::size_t>(event.unit);
    if (counts.size() <= unit)
      counts.resize(unit + 1, std::vector<std::int64_t>(static_cast<std::size_t>(workers)));
    ++counts[unit][static_cast<std::size_t>(event.worker)];
  }
  return counts;
}

}  // namespace taxon::faults
