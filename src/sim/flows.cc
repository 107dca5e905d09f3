#include "sim/flows.h"

#include <cmath>

#include "base/check.h"

namespace taxon::sim {

void Flows::start(Flow& flow, std::vector<Load> loads, Duration progress) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  flow.slot_ = free_.back();
  free_.pop_back();
  slots_[flow.slot_].flow = &flow;
  flow.known_ = flow.loading_ = true;
  flow.loads_ = std::move(loads);
  flow.progress_ = static_cast<double>(progress.count());
  flow.since_ = queue_.now();
  std::vector<std::uint32_t> crowded;
  for (const Load& load : flow.loads_) {
    Wire& wire = wires_[load.wire];
    wire.load += load.part;
    wire.flows.push_back(&flow);
    if (wire.load > kFull) crowded.push_back(load.wire);
  }
  if (!crowded.empty()) share_again(crowded);
}

void Flows::unload(Flow& flow) {
  if (!flow.loading_) return;
  flow.loading_ = false;
  std::vector<std::uint32_t> crowded;
  for (const Load& load : flow.loads_) {
    Wire& wire = wires_[load.wire];
    if (wire.load > kFull) crowded.push_back(load.wire);
    std::erase(wire.flows, &flow);
    wire.load = wire.flows.empty() ? 0 : wire.load - load.part;
  }
  set_pace(flow, 1);
  if (!crowded.empty()) share_again(crowded);
}

void Flows::end(Flow& flow) {
  if (!flow.known_) return;
  unload(flow);
  flow.known_ = false;
  slots_[flow.slot_].flow = nullptr;
  ++slots_[flow.slot_].generation;
  free_.push_back(flow.slot_);
}

Duration Flows::progress(const Flow& flow) const {
  const auto passed = static_cast<double>((queue_.now() - flow.since_).count());
  return Duration(std::llround(flow.progress_ + passed * flow.pace_));
}

void Flows::move(Flow& flow) {
  const auto passed = static_cast<double>((queue_.now() - flow.since_).count());
  flow.progress_ += passed * flow.pace_;
  flow.since_ = queue_.now();
}

void Flows::set_pace(Flow& flow, double pace) {
  if (flow.pace_ == pace) return;
  move(flow);
  flow.pace_ = pace;
  if (flow.called_ >= Duration(0)) plan(flow);
}

void Flows::call_at(Flow& flow, Duration progress) {
  flow.called_ = progress;
  plan(flow);
}

void Flows::plan(Flow& flow) {
  move(flow);
  const double left = std::max(0.0, static_cast<double>(flow.called_.count()) - flow.progress_) / flow.pace_;
  const std::uint64_t generation = ++slots_[flow.slot_].generation;
  queue_.at(queue_.now() + Duration(std::llround(left)), *this, generation << 32 | flow.slot_);
}

void Flows::happen(std::uint64_t call) {
  const Slot& slot = slots_[call & 0xffffffffU];
  if (slot.flow == nullptr || slot.generation != static_cast<std::uint32_t>(call >> 32)) return;
  Flow& flow = *slot.flow;
  const Duration progress = std::exchange(flow.called_, Duration(-1));
  flow.progress_ = std::max(flow.progress_, static_cast<double>(progress.count()));
  flow.since_ = queue_.now();
  flow.made(progress);
}

/// Everything that is under way on the flow's crowded wires is concerned too.
void Flows::collect(Flow& flow) {
  if (flow.visited_ == visit_) return;
  flow.visited_ = visit_;
  concerned_.push_back(&flow);
}

void Flows::share_again(const std::vector<std::uint32_t>& wires) {
  ++visit_;
  concerned_.clear();
  crowded_.clear();
  for (std::uint32_t wire : wires)
    for (Flow* flow : wires_[wire].flows) collect(*flow);
  for (std::size_t i = 0; i < concerned_.size(); ++i)
    for (const Load& load : concerned_[i]->loads_) {
      Wire& wire = wires_[load.wire];
      if (wire.load <= kFull || wire.visited == visit_) continue;
      wire.visited = visit_;
      wire.left = 1;
      wire.wanted = wire.load;
      crowded_.push_back(load.wire);
      for (Flow* flow : wire.flows) collect(*flow);
    }
  // The most crowded wire first: what passes it gets its share there, and less than its share elsewhere.
  const std::uint64_t settled = ++visit_;
  for (;;) {
    const Wire* tightest = nullptr;
    for (std::uint32_t index : crowded_) {
      const Wire& wire = wires_[index];
      if (wire.wanted > 1e-12 &&
          (tightest == nullptr || wire.left * tightest->wanted < tightest->left * wire.wanted))
        tightest = &wire;
    }
    if (tightest == nullptr || tightest->left >= tightest->wanted) break;
    const double share = std::max(1e-9, tightest->left / tightest->wanted);
    for (Flow* flow : tightest->flows) {
      if (flow->visited_ == settled) continue;
      flow->visited_ = settled;
      set_pace(*flow, share);
      for (const Load& load : flow->loads_) {
        Wire& wire = wires_[load.wire];
        wire.left = std::max(0.0, wire.left - load.part * share);
        wire.wanted -= load.part;
      }
    }
    wires_[static_cast<std::size_t>(tightest - wires_.data())].wanted = 0;
  }
  for (Flow* flow : concerned_)
    if (flow->visited_ != settled) set_pace(*flow, 1);
}

}  // namespace taxon::sim
