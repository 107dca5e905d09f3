#pragma once

#include <optional>
#include <vector>

#include "base/rng.h"
#include "base/time.h"
#include "plan/cluster.h"

namespace taxon::sim {

/// Where a rank is, as faults see it.
struct Target {
  int rank = 0;
  int host = 0;
};

/// The stragglers and the fault script of a cluster, as questions with a time. Everything random follows from
/// the seed and the order of the questions.
class Faults {
 public:
  Faults(const plan::ClusterModel& cluster, std::uint64_t seed);

  struct Kill {
    int rank;
    Instant at;
  };
  const std::vector<Kill>& kills() const { return kills_; }
  /// How many times as long a kernel takes that starts now.
  double device_factor(Target target, Instant now);
  /// How many times as long a message takes at the end of this host's link to the network.
  double link_factor(int host, Instant now) const;

  /// True if a delivery may be held back at all.
  bool holds() const { return !cuts_.empty() || !delays_.empty(); }
  /// True if what a message takes may depend on when it is sent.
  bool touches_links() const { return holds() || !slow_links_.empty(); }
  /// When the link between two hosts is whole again; nothing if it is now, Instant::max() if never.
  std::optional<Instant> cut_until(int from, int to, Instant now) const;
  /// A random delay for a delivery to `target`.
  Duration delay(Target target, Instant now);

 private:
  struct Window {
    int rank = -1, host = -1, peer = -1;
    Instant begin, end;
    double factor = 1, probability = 1;
    Duration bound{0};
    bool open(Instant now) const { return now >= begin && now < end; }
    bool concerns(Target target) const {
      return (rank < 0 || rank == target.rank) && (host < 0 || host == target.host);
    }
  };
  std::vector<Kill> kills_;
  std::vector<Window> slow_devices_, slow_links_, cuts_, delays_;
  Rng chance_, lateness_;
};

}  // namespace taxon::sim
