#include "sim/schedules/ring_story.h"

#include <algorithm>

#include "comm/rows/segments.h"

namespace taxon::sim {

RingLeg::RingLeg(int next, int size, std::size_t bytes, comm::Ring::Steps steps) : next(next) {
  const auto members = static_cast<std::size_t>(size);
  segments = comm::segments_for((bytes + members - 1) / members);
  items = segments * static_cast<std::size_t>(steps.last - steps.first);
  window = std::min(comm::Ring::kAhead, segments);
  summed = segments * static_cast<std::size_t>(std::max(0, std::min(steps.last, size - 1) - steps.first));
  piece = static_cast<double>(bytes) / static_cast<double>(members * segments);
}

RingStory::RingStory(ScheduleEvaluator& evaluator, DType type,
                     std::vector<std::vector<std::vector<RingLeg>>> legs)
    : evaluator_(evaluator), type_(type), members_(static_cast<std::size_t>(evaluator.members())) {
  for (auto& colour : legs)
    for (std::vector<RingLeg>& of_member : colour) {
      Actor actor;
      for (const RingLeg& leg : of_member) {
        actor.ways.push_back(evaluator.way(member_of(actors_.size()), leg.next));
        actor.came.push_back(leg.segments > 1 ? -1 : 0);  // ranks' facts come first
      }
      actor.legs = std::move(of_member);
      actors_.push_back(std::move(actor));
    }
}

CompletionTimes RingStory::run() {
  for (std::size_t actor = 0; actor < actors_.size(); ++actor)
    evaluator_.resume_at(Duration(0), static_cast<int>(actor));
  evaluator_.play(*this);
  CompletionTimes table;
  table.waits = 0;
  for (const RingLeg& leg : actors_.front().legs)
    table.waits += static_cast<double>(leg.items) / static_cast<double>(leg.window);
  table.ends.assign(members_, Duration(0));
  for (std::size_t actor = 0; actor < actors_.size(); ++actor) {
    Duration& end = table.ends[static_cast<std::size_t>(member_of(actor))];
    const bool over = actors_[actor].leg == actors_[actor].legs.size();
    end = std::max(end, over ? actors_[actor].end : ScheduleEvaluator::kNever);
  }
  return table;
}

/// Of a leg, to the next actor: messages of a leg may come while their receiver is in the one before.
std::uint32_t RingStory::message(std::size_t actor) const {
  const Actor& at = actors_[actor];
  const std::size_t colour = actor / members_, next = static_cast<std::size_t>(at.legs[at.leg].next);
  return static_cast<std::uint32_t>(at.leg * actors_.size() + colour * members_ + next);
}

void RingStory::send(std::size_t actor, Duration now) {
  Actor& at = actors_[actor];
  const RingLeg& leg = at.legs[at.leg];
  at.left[at.sent++ % leg.window] = evaluator_.post(at.ways[at.leg], leg.piece, now, message(actor));
}

void RingStory::resumed(int actor, Duration now) {
  actors_[static_cast<std::size_t>(actor)].sleeping = false;
  go_on(static_cast<std::size_t>(actor), now);
}

void RingStory::arrived(std::uint32_t message, Duration now) {
  Actor& at = actors_[message % actors_.size()];
  ++at.came[message / actors_.size()];
  if (!at.sleeping) go_on(message % actors_.size(), now);
}

void RingStory::go_on(std::size_t actor, Duration now) {
  Actor& at = actors_[actor];
  for (; at.leg < at.legs.size(); ++at.leg) {
    const RingLeg& leg = at.legs[at.leg];
    if (!std::exchange(at.begun, true)) {
      at.sent = at.item = 0;
      if (leg.segments > 1) evaluator_.post(at.ways[at.leg], kFactsBytes, now, message(actor));
      while (at.sent < std::min(leg.window, leg.items)) send(actor, now);
    }
    while (at.item < leg.items)
      if (!item_done(actor, now)) return;
    at.begun = false;
  }
  at.end = now;
}

/// Received, summed, and its own send over; then another one takes its place.
bool RingStory::item_done(std::size_t actor, Duration now) {
  Actor& at = actors_[actor];
  const RingLeg& leg = at.legs[at.leg];
  if (at.came[at.leg] <= static_cast<std::int64_t>(at.item)) return false;
  if (at.item < leg.summed && !std::exchange(at.summed, true) &&
      !reached(actor, evaluator_.sum(member_of(actor), type_, leg.piece, 2, 1, now), now))
    return false;
  if (!reached(actor, at.left[at.item % leg.window], now)) return false;
  at.summed = false;
  ++at.item;
  if (at.sent < leg.items) send(actor, now);
  return true;
}

bool RingStory::reached(std::size_t actor, Duration when, Duration now) {
  if (when <= now) return true;
  actors_[actor].sleeping = true;
  evaluator_.resume_at(when, static_cast<int>(actor));
  return false;
}

}  // namespace taxon::sim
