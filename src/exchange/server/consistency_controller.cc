#include "exchange/server/consistency_controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/check.h"

namespace taxon::exchange {

ConsistencyController::ConsistencyController(int workers, std::unique_ptr<ConsistencyRule> rule)
    : workers_(static_cast<std::size_t>(workers)), rule_(std::move(rule)) {}

void ConsistencyController::set_out(std::int64_t version) {
  version_ = version;
  for (WorkerClock& worker : workers_) worker.clock = version;
}

int ConsistencyController::taking_part() const {
  return static_cast<int>(
      std::count_if(workers_.begin(), workers_.end(), [](const WorkerClock& w) { return w.takes_part; }));
}

/// Fewer than the plan's number when fewer are left, or the last ones would wait for ever.
int ConsistencyController::needed() const {
  const int here = std::max(1, taking_part());
  const int apply = rule_->apply(workers_);
  return apply == ConsistencyRule::kAll ? here : std::clamp(apply, 1, here);
}

std::int64_t ConsistencyController::lead(int w) const {
  const std::int64_t lead = rule_->lead(w, workers_);
  TAXON_CHECK(lead >= 0 || lead == ConsistencyRule::kUnbounded, "a rule lets workers lead by ", lead);
  return lead;
}

bool ConsistencyController::is_late(int w, std::int64_t common) const {
  const std::int64_t lead = this->lead(w);
  return lead != ConsistencyRule::kUnbounded && worker(w).clock + lead < common;
}

std::int64_t ConsistencyController::common_for(int w) const {
  std::vector<std::int64_t> clocks;
  for (int other = 0; other < static_cast<int>(workers_.size()); ++other)
    if (worker(other).takes_part && (w < 0 || w == other || rule_->waits_for(w, other, workers_)))
      clocks.push_back(worker(other).clock);
  if (clocks.empty()) return std::max(reached_, furthest());
  std::sort(clocks.begin(), clocks.end(), std::greater<>());
  const auto all = static_cast<int>(clocks.size());
  const int wanted = rule_->quorum(workers_);
  const int quorum = wanted == ConsistencyRule::kAll ? all : std::clamp(wanted, 1, all);
  return std::max(reached_, clocks[static_cast<std::size_t>(quorum - 1)]);
}

std::int64_t ConsistencyController::furthest() const {
  std::int64_t furthest = 0;
  for (const WorkerClock& worker : workers_) furthest = std::max(furthest, worker.clock);
  return furthest;
}

ConsistencyController::Arrival ConsistencyController::arrive(int w, std::int64_t clock, std::int64_t base,
                                                             Instant now) {
  WorkerClock& worker = this->worker(w);
  worker.takes_part = true;
  worker.clock = std::max(worker.clock, clock);
  const std::size_t place = arrivals_++;
  const std::int64_t common = this->common();
  if (is_late(w, common)) {
    worker.clock = common;
    return Arrival::Dropped;
  }
  ++worker.pooled;
  pool_.push_back({w, place, base});
  rule_->arrived(w, now, workers_);
  return Arrival::Pooled;
}

bool ConsistencyController::is_new(int w, std::int64_t number) {
  WorkerClock& worker = this->worker(w);
  if (number < worker.handed_in) return false;
  worker.handed_in = number + 1;
  return true;
}

bool ConsistencyController::full() const {
  return !pool_.empty() && static_cast<int>(pool_.size()) >= needed();
}

std::vector<ConsistencyController::Pooled> ConsistencyController::take() {
  TAXON_CHECK(full(), "the pool has ", pool_.size(), " contributions");
  const std::size_t count = static_cast<std::size_t>(needed());
  std::vector<Pooled> update;
  for (std::size_t i = 0; i < count; ++i) {
    const Waiting& waiting = pool_[i];
    update.push_back({waiting.worker, waiting.place, version_ - waiting.base});
    WorkerClock& worker = this->worker(waiting.worker);
    --worker.pooled;
    ++worker.clock;
  }
  pool_.erase(pool_.begin(), pool_.begin() + static_cast<std::ptrdiff_t>(count));
  std::stable_sort(update.begin(), update.end(),
                   [](const Pooled& a, const Pooled& b) { return a.worker < b.worker; });
  if (rule_->quorum(workers_) != ConsistencyRule::kAll) {
    for (const Pooled& pooled : update) reached_ = std::max(reached_, worker(pooled.worker).clock);
    for (const Pooled& pooled : update) worker(pooled.worker).clock = reached_;
  }
  ++version_;
  return update;
}

std::vector<ConsistencyController::Pooled> ConsistencyController::drop_late() {
  std::vector<Pooled> late;
  const std::int64_t common = this->common();
  std::vector<Waiting> kept;
  for (const Waiting& waiting : pool_) {
    WorkerClock& worker = this->worker(waiting.worker);
    if (!is_late(waiting.worker, common)) {
      kept.push_back(waiting);
      continue;
    }
    late.push_back({waiting.worker, waiting.place, version_ - waiting.base});
    --worker.pooled;
    worker.clock = common;
  }
  pool_ = std::move(kept);
  return late;
}

bool ConsistencyController::may_go(int w) const {
  const std::int64_t lead = this->lead(w);
  return lead == ConsistencyRule::kUnbounded || common_for(w) + lead >= worker(w).reached();
}

std::string ConsistencyController::describe() const {
  std::string clocks;
  for (const WorkerClock& worker : workers_) {
    const std::string ahead = worker.pooled > 0 ? fmt::format("+{}", worker.pooled) : "";
    clocks += fmt::format(fmt::runtime(worker.takes_part ? " {}{}" : " ({}{})"), worker.clock, ahead);
  }
  return fmt::format("version {}, clocks{}, common {}{}", version_, clocks, common(),
                     rule_->describe(workers_));
}

void ConsistencyController::pause(int w) {
  worker(w).takes_part = false;
  go_on_together();
}

void ConsistencyController::leave(int w) {
  WorkerClock& worker = this->worker(w);
  worker.takes_part = worker.present = false;
  go_on_together();
}

/// If nobody is left who does not pause.
void ConsistencyController::go_on_together() {
  if (taking_part() > 0) return;
  for (WorkerClock& worker : workers_) worker.takes_part = worker.present;
}

int ConsistencyController::present() const {
  return static_cast<int>(
      std::count_if(workers_.begin(), workers_.end(), [](const WorkerClock& w) { return w.present; }));
}

}  // namespace taxon::exchange
