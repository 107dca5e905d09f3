#include "sim/machine.h"

#include <algorithm>
#include <cmath>

namespace taxon::sim {
namespace {

/// What rounding may leave of a milestone or of a budget, in picoseconds.
constexpr double kNothing = 0.5;

}  // namespace

/// Cores that its work may use now.
double Machine::Host::usable() const {
  if (!has_quota()) return share.cores;
  return budget > kNothing ? INFINITY : 0;
}

std::size_t Machine::add_host(CoreShare share) {
  Host host{.share = share};
  host.refill = queue_.now() + share.phase;  // the first period is dealt out late, or now
  host.budget = share.cores * static_cast<double>(share.phase.count());
  hosts_.push_back(host);
  return hosts_.size() - 1;
}

void Machine::run(CoreWork& work, std::size_t host, double demand, Duration time) {
  advance();
  work.host_ = host;
  work.demand_ = demand;
  work.left_ = static_cast<double>(time.count());
  running_.push_back(&work);
  if (!reaching_) plan_next();
}

void Machine::advance() {
  if (queue_.now() >= EventQueue::kEnd)  // nothing is left undone
    for (CoreWork* work : running_) work->left_ = 0;
  const auto passed = static_cast<double>((queue_.now() - last_).count());
  last_ = queue_.now();
  if (passed <= 0) return;
  for (CoreWork* work : running_) work->left_ -= passed * hosts_[work->host_].speed;
  for (Host& host : hosts_) host.budget -= passed * host.speed * host.demand;
}

void Machine::happen(std::uint64_t generation) {
  if (generation != generation_) return;
  advance();
  reaching_ = true;
  for (;;) {
    auto due = std::find_if(running_.begin(), running_.end(),
                            [](const CoreWork* work) { return work->left_ <= kNothing; });
    if (due == running_.end()) break;
    CoreWork* work = *due;
    running_.erase(due);
    work->reached();  // may run() this and other work
  }
  reaching_ = false;
  plan_next();
}

/// Periods that have begun; of those that nobody has used nothing is left.
void Machine::deal_out() {
  const Instant now = queue_.now();
  for (Host& host : hosts_) {
    if (!host.has_quota() || now < host.refill) continue;
    host.refill += ((now - host.refill) / host.share.period + 1) * host.share.period;
    host.budget = host.share.cores * static_cast<double>(host.share.period.count());
  }
}

void Machine::share_out() {
  for (Host& host : hosts_) host.demand = 0;
  for (const CoreWork* work : running_) hosts_[work->host_].demand += work->demand_;
  double wanted = 0;
  for (const Host& host : hosts_) wanted += std::min(host.demand, host.usable());
  const double share = wanted > cores_ ? cores_ / wanted : 1;
  for (Host& host : hosts_)
    host.speed = share * (host.demand > host.usable() ? host.usable() / host.demand : 1);
}

void Machine::plan_next() {
  ++generation_;
  if (running_.empty()) {
    for (Host& host : hosts_) host.demand = 0;
    return;
  }
  deal_out();
  share_out();
  double soonest = INFINITY;
  for (const CoreWork* work : running_)
    if (const Host& host = hosts_[work->host_]; host.speed > 0)
      soonest = std::min(soonest, std::max(work->left_, 0.0) / host.speed);
  for (const Host& host : hosts_) {
    if (!host.has_quota() || host.demand <= 0) continue;
    soonest = std::min(soonest, static_cast<double>((host.refill - queue_.now()).count()));
    if (host.speed > 0) soonest = std::min(soonest, host.budget / (host.speed * host.demand));
  }
  queue_.at(queue_.now() + from_picoseconds(std::ceil(soonest)), *this, generation_);
}

}  // namespace taxon::sim
