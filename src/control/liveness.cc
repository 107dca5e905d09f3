#include "control/liveness.h"

#include <algorithm>

namespace taxon::control {
void Liveness::add(Rank rank, Clock::time_point now) {
  ranks_[rank] = {now, State::Heard};
  if (!last_check_) last_check_ = now;
}

std::optional<Event> Liveness::heard(Rank rank, Clock::time_point now) {
  auto found = ranks_.find(rank);
  if (found == ranks_.end()) return {};
  Entry before = found->second;
  found->second = {now, State::Heard};
  if (before.state == State::Heard) return {};
  return Returned{rank, seconds(now - before.last)};
}

std::vector<Event> Liveness::check(Clock::time_point now) {
  if (last_check_ && now - *last_check_ > 3 * timeouts_.heartbeat) {
    auto missed = now - *last_check_ - timeouts_.heartbeat;
    for (auto& [rank, entry] : ranks_) entry.last = std::min(now, entry.last + missed);
  }
  last_check_ = now;
  std::vector<Event> events;
  for (auto& [rank, entry] : ranks_) {
    auto quiet = now - entry.last;
    if (entry.state == State::Heard && quiet >= timeouts_.silence) {
      entry.state = State::Silent;
      events.push_back(Silent{rank, seconds(quiet)});
    }
    if (entry.state == State::Silent && quiet >= timeouts_.peer) {
      entry.state = State::Expired;
      events.push_back(DeadlinePassed{rank, seconds(quiet)});
    }
  }
  return events;
}

std::map<Rank, double> Liveness::silent(Clock::time_point now) const {
  std::map<Rank, double> result;
  for (const auto& [rank, entry] : ranks_)
    if (entry.state != State::Heard) result[rank] = seconds(now - entry.last);
  return result;
}

}  // namespace taxon::control
