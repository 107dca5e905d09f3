#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace taxon::control {

/// How far another host's clock is ahead, from messages there and back (the clock filter of NTP, RFC 5905
/// section 10: of the recent samples the one with the shortest delay is right within half that delay).
/// All times in nanoseconds.
class ClockEstimate {
 public:
  struct Sample {
    std::int64_t sent_here, seen_there, sent_there, seen_here;
  };
  void add(const Sample& sample) {
    std::int64_t delay = (sample.seen_here - sample.sent_here) - (sample.sent_there - sample.seen_there);
    std::int64_t offset =
        ((sample.seen_there - sample.sent_here) + (sample.sent_there - sample.seen_here)) / 2;
    recent_.push_back({delay, offset});
    if (recent_.size() > kWindow) recent_.pop_front();
  }
  std::size_t samples() const { return recent_.size(); }
  /// Their clock minus ours. 0 without samples.
  std::int64_t offset() const {
    const Measured* best = nullptr;
    for (const Measured& m : recent_)
      if (best == nullptr || m.delay < best->delay) best = &m;
    return best == nullptr ? 0 : best->offset;
  }

 private:
  // A minute of heartbeats: clocks that drift 50 millionths apart move 3 us in it.
  static constexpr std::size_t kWindow = 64;
  struct Measured {
    std::int64_t delay, offset;
  };
  std::deque<Measured> recent_;
};

}  // namespace taxon::control
