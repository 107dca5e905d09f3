#include "exchange/server/consistency.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/check.h"

namespace taxon::exchange {

ConsistencyController::ConsistencyController(int workers, Consistency numbers)
    : workers_(static_cast<std::size_t>(workers)), numbers_(numbers) {}

void ConsistencyController::set_out(std::int64_t version) {
  version_ = version;
  for (Worker& worker : workers_) worker.clock = version;
}

int ConsistencyController::taking_part() const {
  return static_cast<int>(
      std::count_if(workers_.begin(), workers_.end(), [](const Worker& w) { return w.takes_part; }));
}

/// Fewer than the plan's number when fewer are left, or the last ones would wait for ever.
int ConsistencyController::needed() const {
  const int here = std::max(1, taking_part());
  return numbers_.apply == Consistency::kAll ? here : std::min(numbers_.apply, here);
}

std::int64_t ConsistencyController::common() const {
  std::vector<std::int64_t> clocks;
  for (const Worker& worker : workers_)
    if (worker.takes_part) clocks.push_back(worker.clock);
  if (clocks.empty()) return std::max(reached_, furthest());
  std::sort(clocks.begin(), clocks.end(), std::greater<>());
  const auto all = static_cast<int>(clocks.size());
  const int quorum = numbers_.quorum == Consistency::kAll ? all : std::min(numbers_.quorum, all);
  return std::max(reached_, clocks[static_cast<std::size_t>(quorum - 1)]);
}

std::int64_t ConsistencyController::furthest() const {
  std::int64_t furthest = 0;
  for (const Worker& worker : workers_) furthest = std::max(furthest, worker.clock);
  return furthest;
}

ConsistencyController::Arrival ConsistencyController::arrive(int w, std::int64_t clock, std::int64_t base) {
  Worker& worker = workers_[static_cast<std::size_t>(w)];
  worker.takes_part = true;
  worker.clock = std::max(worker.clock, clock);
  const std::size_t place = arrivals_++;
  const std::int64_t common = this->common();
  if (numbers_.staleness != Consistency::kUnbounded && worker.clock + numbers_.staleness < common) {
    worker.clock = common;
    return Arrival::Dropped;
  }
  ++worker.pooled;
  pool_.push_back({w, place, base});
  return Arrival::Pooled;
}

bool ConsistencyController::is_new(int w, std::int64_t number) {
  Worker& worker = workers_[static_cast<std::size_t>(w)];
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
    Worker& worker = workers_[static_cast<std::size_t>(waiting.worker)];
    --worker.pooled;
    ++worker.clock;
  }
  pool_.erase(pool_.begin(), pool_.begin() + static_cast<std::ptrdiff_t>(count));
  std::stable_sort(update.begin(), update.end(),
                   [](const Pooled& a, const Pooled& b) { return a.worker < b.worker; });
  if (numbers_.quorum != Consistency::kAll) {
    for (const Pooled& pooled : update)
      reached_ = std::max(reached_, workers_[static_cast<std::size_t>(pooled.worker)].clock);
    for (const Pooled& pooled : update) workers_[static_cast<std::size_t>(pooled.worker)].clock = reached_;
  }
  ++version_;
  return update;
}

std::vector<ConsistencyController::Pooled> ConsistencyController::drop_late() {
  std::vector<Pooled> late;
  if (numbers_.staleness == Consistency::kUnbounded) return late;
  const std::int64_t common = this->common();
  std::vector<Waiting> kept;
  for (const Waiting& waiting : pool_) {
    Worker& worker = workers_[static_cast<std::size_t>(waiting.worker)];
    if (worker.clock + numbers_.staleness >= common) {
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
  const Worker& worker = workers_[static_cast<std::size_t>(w)];
  if (numbers_.staleness == Consistency::kUnbounded) return true;
  return common() + numbers_.staleness >= worker.clock + worker.pooled;
}

std::string ConsistencyController::describe() const {
  std::string clocks;
  for (const Worker& worker : workers_) {
    const std::string ahead = worker.pooled > 0 ? fmt::format("+{}", worker.pooled) : "";
    clocks += fmt::format(fmt::runtime(worker.takes_part ? " {}{}" : " ({}{})"), worker.clock, ahead);
  }
  return fmt::format("version {}, clocks{}, common {}", version_, clocks, common());
}

void ConsistencyController::pause(int w) {
  workers_[static_cast<std::size_t>(w)].takes_part = false;
  go_on_together();
}

void ConsistencyController::leave(int w) {
  Worker& worker = workers_[static_cast<std::size_t>(w)];
  worker.takes_part = worker.present = false;
  go_on_together();
}

/// If nobody is left who does not pause.
void ConsistencyController::go_on_together() {
  if (taking_part() > 0) return;
  for (Worker& worker : workers_) worker.takes_part = worker.present;
}

int ConsistencyController::present() const {
  return static_cast<int>(
      std::count_if(workers_.begin(), workers_.end(), [](const Worker& w) { return w.present; }));
}

}  // namespace taxon::exchange
