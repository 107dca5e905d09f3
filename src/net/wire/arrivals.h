#pragma once

#include <cstdint>
#include <vector>

#include "base/named.h"
#include "base/time.h"

namespace taxon::net {

/// What each of those who send to this rank at one time gets of its link: only the receiver knows how many
/// they are. Told to all of them, it makes their windows equal (send_window.h), where what each measures of
/// its own would wander: whoever has more in the queue gets more of the link, and then allows itself more.
class Arrivals {
 public:
  static constexpr Duration kEpoch = std::chrono::milliseconds(50);
  /// Longer ones had a pause.
  static constexpr Duration kLongest = std::chrono::milliseconds(200);

  explicit Arrivals(int world_size) : bytes_(static_cast<std::size_t>(world_size)) {}
  void count(Rank source, std::size_t bytes) { bytes_[static_cast<std::size_t>(source.value())] += bytes; }
  /// Bytes per second that each sender gets; 0 where there is at most one.
  double share(Instant now);

 private:
  std::vector<std::uint64_t> bytes_;  // [source], in this epoch
  Instant begin_{};
  double share_ = 0;
};

}  // namespace taxon::net
