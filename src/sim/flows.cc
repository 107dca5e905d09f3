#include "sim/flows.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace taxon::sim {

void Flows::start(Flow& flow, Start start) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  flow.slot_ = free_.back();
  free_.pop_back();
  slots_[flow.slot_].flow = &flow;
  flow.known_ = flow.loading_ = true;
  flow.loads_ = std::move(start.loads);
  flow.cycle_ = static_cast<double>(start.cycle.count());
  flow.progress_ = static_cast<double>(start.progress.count());
  flow.since_ = queue_.now();
  for (std::uint32_t i = 0; i < flow.loads_.size(); ++i) {
    const Load& load = flow.loads_[i];
    Wire& wire = wires_[load.wire];
    wire.load += load.part;
    wire.stands += load.part * load.stands_over;
    wire.flows.push_back({&flow, i});
    flow.most_ = std::max<double>(flow.most_, load.part);
    if (wire.flows.size() > 1) change(load.wire);
  }
}

void Flows::unload(Flow& flow) {
  if (!flow.loading_) return;
  flow.loading_ = false;
  for (const Load& load : flow.loads_) {
    Wire& wire = wires_[load.wire];
    std::erase_if(wire.flows, [&](const Passing& passing) { return passing.flow == &flow; });
    wire.load = wire.flows.empty() ? 0 : wire.load - load.part;
    wire.stands = wire.flows.empty() ? 0 : wire.stands - load.part * load.stands_over;
    if (!wire.flows.empty()) change(load.wire);
  }
  flow.loads_.clear();
  set_pace(flow, 1);
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
  queue_.at(queue_.now() + from_picoseconds(left), *this, generation << 32 | flow.slot_);
}

/// What changes at one time is dealt with at once.
void Flows::change(std::uint32_t wire) {
  if (!wires_[wire].changed) changed_.push_back(wire);
  wires_[wire].changed = true;
  if (due_) return;
  due_ = true;
  queue_.at(queue_.now(), *this, kShare);
}

void Flows::happen(std::uint64_t call) {
  if (call == kShare) return share_again();
  const Slot& slot = slots_[call & 0xffffffffU];
  if (slot.flow == nullptr || slot.generation != static_cast<std::uint32_t>(call >> 32)) return;
  Flow& flow = *slot.flow;
  const Duration progress = std::exchange(flow.called_, Duration(-1));
  flow.progress_ = std::max(flow.progress_, static_cast<double>(progress.count()));
  flow.since_ = queue_.now();
  flow.made(progress);
}

/// The pace that a flow has at a wire where messages wait so long, their own service included.
double Flows::pace_at(const Passing& passing, double waiting) {
  const double cycle = passing.flow->cycle_, stay = passing.flow->loads_[passing.load].stay;
  return waiting <= stay ? 1 : cycle / (cycle + waiting - stay);
}

/// How long a message waits at a wire that all together would fill more than once. What earlier wires keep a
/// flow from sending does not come here.
double Flows::waiting(const Wire& wire) {
  limits_.clear();
  for (const Passing& passing : wire.flows)
    limits_.push_back(passing.flow->loads_[passing.load].part * passing.flow->limit_);
  auto used = [&](double waiting) {
    double sum = 0;
    for (std::size_t i = 0; i < limits_.size(); ++i) {
      const Passing& passing = wire.flows[i];
      sum += std::min(limits_[i], passing.flow->loads_[passing.load].part * pace_at(passing, waiting));
    }
    return sum;
  };
  if (used(0) <= kFull) return 0;
  double low = 0, high = 1e6;
  while (used(high) > 1 && high < 1e18) high *= 4;
  while (high - low > 1e-4 * high) {
    const double middle = (low + high) / 2;
    (used(middle) > 1 ? low : high) = middle;
  }
  return high;
}

void Flows::share(Wire& wire) {
  const double common = wire.flows.size() > 1 ? waiting(wire) : 0;
  for (const Passing& passing : wire.flows) {
    Flow& flow = *passing.flow;
    const Load& load = flow.loads_[passing.load];
    // Wires that it hardly uses hold up nothing that a flow waits for.
    if (load.part < 0.5 * flow.most_) continue;
    // Even where the wire has time for all, a message finds what others have queued.
    const double behind = load.stay + wire.stands - load.part * load.stands_over;
    flow.limit_ = std::min(flow.limit_, pace_at(passing, std::max(common, behind)));
  }
}

void Flows::share_again() {
  due_ = false;
  ++visit_;
  std::vector<std::uint32_t> wires = std::move(changed_);
  changed_.clear();
  for (std::uint32_t wire : wires) {
    wires_[wire].changed = false;
    wires_[wire].visited = visit_;
  }
  // Who passes a concerned wire passes others, and is felt there, unless it sends hardly anything.
  std::vector<Flow*> flows;
  for (std::size_t i = 0; i < wires.size(); ++i)
    for (const Passing& passing : wires_[wires[i]].flows) {
      Flow& flow = *passing.flow;
      if (flow.visited_ == visit_) continue;
      flow.visited_ = visit_;
      flows.push_back(&flow);
      for (const Load& load : flow.loads_) {
        Wire& wire = wires_[load.wire];
        if (load.part < kCounts || wire.flows.size() < 2 || wire.visited == visit_) continue;
        wire.visited = visit_;
        wires.push_back(load.wire);
      }
    }
  for (Flow* flow : flows) flow->limit_ = 1;
  for (std::uint32_t wire : wires) share(wires_[wire]);
  for (Flow* flow : flows) set_pace(*flow, flow->limit_);
}

}  // namespace taxon::sim
