#include "sim/machine.h"

#include <algorithm>
#include <cmath>

namespace taxon::sim {
namespace {

/// What rounding may leave of a milestone, in picoseconds.
constexpr double kNothing = 0.5;

}  // namespace

std::size_t Machine::add_host(double cores) {
  hosts_.push_back({cores});
  return hosts_.size() - 1;
}

void Machine::run(Work& work, std::size_t host, double demand, Duration time) {
  advance();
  work.host_ = host;
  work.demand_ = demand;
  work.left_ = static_cast<double>(time.count());
  running_.push_back(&work);
  if (!reaching_) plan_next();
}

void Machine::advance() {
  const auto passed = static_cast<double>((queue_.now() - last_).count());
  last_ = queue_.now();
  if (passed > 0)
    for (Work* work : running_) work->left_ -= passed * hosts_[work->host_].speed;
}

void Machine::happen(std::uint64_t generation) {
  if (generation != generation_) return;
  advance();
  reaching_ = true;
  for (;;) {
    auto due = std::find_if(running_.begin(), running_.end(),
                            [](const Work* work) { return work->left_ <= kNothing; });
    if (due == running_.end()) break;
    Work* work = *due;
    running_.erase(due);
    work->reached();  // may run() this and other work
  }
  reaching_ = false;
  plan_next();
}

void Machine::plan_next() {
  ++generation_;
  if (running_.empty()) return;
  for (Host& host : hosts_) host.demand = 0;
  for (const Work* work : running_) hosts_[work->host_].demand += work->demand_;
  double wanted = 0;
  for (const Host& host : hosts_) wanted += std::min(host.demand, host.cores);
  const double share = wanted > cores_ ? cores_ / wanted : 1;
  for (Host& host : hosts_) host.speed = share * (host.demand > host.cores ? host.cores / host.demand : 1);
  double soonest = INFINITY;
  for (const Work* work : running_)
    soonest = std::min(soonest, std::max(work->left_, 0.0) / hosts_[work->host_].speed);
  queue_.at(queue_.now() + Duration(static_cast<std::int64_t>(std::ceil(soonest))), *this, generation_);
}

}  // namespace taxon::sim
