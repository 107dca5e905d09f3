#include "sim/schedule_evaluator.h"

#include <algorithm>

namespace taxon::sim {
namespace {

/// Sums of times that may be long ones.
Duration kept(Duration sum) { return std::min(sum, ScheduleEvaluator::kNever); }

}  // namespace

ScheduleEvaluator::ScheduleEvaluator(const Wiring& wiring, Faults* faults)
    : wiring_(wiring), faults_(faults), links_(wiring.links().size()) {
  for (const Link& link : wiring.links()) {
    places_.emplace(&link, static_cast<std::int32_t>(wires_.size()));
    wires_.push_back({link.ps_per_byte(), link.burst(), -link.burst()});
    bursty_ |= link.burst() > Duration(0);
  }
  wires_.resize(links_ + wiring.ranks());
  touched_.resize(wires_.size());
}

void ScheduleEvaluator::begin(const std::vector<Rank>& members, Instant now) {
  members_ = &members;
  now_ = now;
  cut_off_.reset();
  for (std::uint32_t wire : order_) {
    wires_[wire] = {wires_[wire].ps_per_byte, wires_[wire].burst, -wires_[wire].burst};
    touched_[wire] = false;
  }
  order_.clear();
}

ScheduleEvaluator::Wire& ScheduleEvaluator::touch(std::size_t wire) {
  if (!touched_[wire]) {
    touched_[wire] = true;
    order_.push_back(static_cast<std::uint32_t>(wire));
  }
  return wires_[wire];
}

ScheduleEvaluator::Way ScheduleEvaluator::way(int from, int to) const {
  Way way;
  way.from = (*members_)[static_cast<std::size_t>(from)];
  way.to = (*members_)[static_cast<std::size_t>(to)];
  const Route route = wiring_.route(way.from, way.to);
  way.overhead = route.overhead;
  way.latency = route.latency;
  way.eager = route.eager;
  way.from_host = route.from;
  way.to_host = route.to;
  if (route.out != nullptr) way.wires[0] = places_.at(route.out);
  for (std::size_t hop = 0; hop < route.then.size() && route.then[hop] != nullptr; ++hop)
    way.wires[hop + 1] = places_.at(route.then[hop]);
  return way;
}

ScheduleEvaluator::Turn ScheduleEvaluator::serve(std::int32_t wire, Duration at, double bytes, double factor,
                                                 Duration overhead) {
  Wire& link = touch(static_cast<std::size_t>(wire));
  const Duration begin = std::max(at, link.free);
  const Duration time = overhead + from_picoseconds(bytes * link.ps_per_byte * factor);
  link.paid = kept(std::max(link.paid, begin - link.burst) + time);
  link.free = kept(std::max(link.paid, begin + overhead));
  link.busy = kept(link.busy + time);
  link.stays = kept(link.stays + link.free - at);
  link.bytes += bytes;
  ++link.messages;
  return {begin, link.free};
}

/// The sender's end, and what holds the first byte behind it.
ScheduleEvaluator::Departure ScheduleEvaluator::depart(const Way& way, double bytes, Duration at) {
  Turn turn{at, at};
  if (way.wires[0] >= 0) {
    const bool faulty = faults_ != nullptr && way.from_host != way.to_host;
    turn = serve(way.wires[0], at, bytes, faulty ? faults_->link_factor(way.from_host, now_ + at) : 1,
                 way.overhead);
  }
  Departure leaving{bytes <= static_cast<double>(way.eager) ? at : turn.end,
                    turn.begin + way.overhead + way.latency, turn.end + way.latency};
  if (faults_ == nullptr || !faults_->holds()) return leaving;
  const Instant now = now_ + leaving.first;
  Instant due = now + faults_->delay({way.to.value(), way.to_host}, now);
  if (auto whole = faults_->cut_until(way.from_host, way.to_host, due)) due = *whole;
  if (due == Instant::max()) {
    if (!cut_off_) cut_off_ = way.from;
    leaving.first = leaving.last = kNever;
  } else {
    leaving.first = due - now_;
    leaving.last = std::max(leaving.last, leaving.first);
  }
  return leaving;
}

bool ScheduleEvaluator::pass(Moving& moving) {
  const Way& way = *moving.way;
  if (moving.hop == way.wires.size() || way.wires[moving.hop] < 0) return true;
  const bool end = moving.hop + 1 == way.wires.size() || way.wires[moving.hop + 1] < 0;
  const bool faulty = end && faults_ != nullptr && way.from_host != way.to_host;
  const double factor = faulty ? faults_->link_factor(way.to_host, now_ + moving.first) : 1;
  const Turn turn = serve(way.wires[moving.hop++], moving.first, moving.bytes, factor, Duration(0));
  moving.last = std::max(moving.last, turn.end);
  moving.first = turn.begin;
  return end;
}

ScheduleEvaluator::Sent ScheduleEvaluator::send(const Way& way, double bytes, Duration at) {
  if (at >= kNever) return {kNever, kNever};
  const Departure leaving = depart(way, bytes, at);
  if (leaving.first >= kNever) return {leaving.done, kNever};
  Moving moving{&way, bytes, leaving.first, leaving.last};
  while (!pass(moving)) continue;
  return {leaving.done, moving.last};
}

Duration ScheduleEvaluator::post(const Way& way, double bytes, Duration now, std::uint32_t message) {
  const Departure leaving = depart(way, bytes, now);
  if (leaving.first >= kNever) return leaving.done;
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(moving_.size()));
    moving_.emplace_back();
  }
  const std::uint32_t place = free_.back();
  free_.pop_back();
  moving_[place] = {&way, bytes, leaving.first, leaving.last, 1, message};
  const bool there = way.wires[1] < 0;
  events_.push({there ? leaving.last : leaving.first, sequence_++, there ? kThere : kHop, place});
  return leaving.done;
}

void ScheduleEvaluator::play(Story& story) {
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    if (event.kind == kResume) {
      story.resumed(static_cast<int>(event.index), event.at);
      continue;
    }
    Moving& moving = moving_[event.index];
    if (event.kind == kHop) {
      const bool there = pass(moving);
      events_.push({there ? moving.last : moving.first, sequence_++, there ? kThere : kHop, event.index});
      continue;
    }
    free_.push_back(event.index);
    story.arrived(moving.message, event.at);
  }
}

Duration ScheduleEvaluator::work(int member, double flops, double bytes, Duration at) {
  if (at >= kNever) return kNever;
  const Rank rank = (*members_)[static_cast<std::size_t>(member)];
  const plan::DeviceModel& device = wiring_.place(rank).model->device;
  const Duration time =
      from_seconds(std::max(flops / device.flops, bytes / wiring_.memory(rank).bandwidth()));
  if (time == Duration(0)) return at;
  Wire& lane = touch(links_ + static_cast<std::size_t>(rank.value()));
  lane.free = kept(std::max(at, lane.free) + time);
  lane.busy = kept(lane.busy + time);
  lane.stays = kept(lane.stays + lane.free - at);
  ++lane.messages;
  return lane.free;
}

std::vector<ScheduleEvaluator::Use> ScheduleEvaluator::uses() const {
  std::vector<Use> all;
  all.reserve(order_.size());
  for (std::uint32_t wire : order_)
    all.push_back({wire, wires_[wire].messages, wires_[wire].bytes, wires_[wire].busy, wires_[wire].stays});
  return all;
}

Duration ScheduleEvaluator::later(Duration at, Duration period, std::int64_t count) {
  std::int64_t time = 0;
  return __builtin_mul_overflow(period.count(), count, &time) ? kNever : kept(at + kept(Duration(time)));
}

void ScheduleEvaluator::repeat(const Snapshot& before, std::int64_t count, Duration period) {
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const Use old = i < before.uses.size() ? before.uses[i] : Use{};
    Wire& wire = wires_[order_[i]];
    wire.free = later(wire.free, period, count);
    wire.paid = later(wire.paid, period, count);
    wire.busy = later(wire.busy, wire.busy - old.busy, count);
    wire.stays = later(wire.stays, wire.stays - old.stays, count);
    wire.bytes += (wire.bytes - old.bytes) * static_cast<double>(count);
    wire.messages += (wire.messages - old.messages) * static_cast<std::uint64_t>(count);
  }
}

}  // namespace taxon::sim
