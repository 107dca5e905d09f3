#pragma once

#include <memory>
#include <vector>

#include "comm/runtime.h"

namespace taxon::exchange {

/// Admits buckets to the network: at most `credits` at once, of those that wait the one with the smallest
/// (key, index) first. A bucket that comes before all in flight needs no credit: it overtakes them, which is
/// what priorities are for, and it keeps ranks that complete gradients in different orders from waiting for
/// each other with their credits spent on different buckets. (The first unfinished bucket of all is admitted
/// on every rank as soon as it is complete there, so it ends; then the next is the first.)
class Lane {
 public:
  Lane(comm::Runtime& runtime, int credits) : runtime_(runtime), credits_(credits) {}

  /// A new step over keys.size() buckets; equal keys go by index. REQUIRES: everybody of the last step has
  /// left.
  void begin(std::vector<int> keys);

  /// Leaves the lane when it dies.
  class Turn {
   public:
    Turn(Lane& lane, int index) : lane_(&lane), index_(index) {}
    Turn(Turn&& other) noexcept : lane_(std::exchange(other.lane_, nullptr)), index_(other.index_) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (lane_) lane_->leave(index_);
    }

   private:
    Lane* lane_;
    int index_;
  };
  /// Suspends until bucket `index` is admitted.
  task::Task<Turn> enter(int index, std::string subject);

 private:
  using Place = std::pair<int, int>;  // key, index
  Place place(int index) const { return {keys_[static_cast<std::size_t>(index)], index}; }
  void leave(int index);
  void admit();
  comm::Runtime& runtime_;
  const int credits_;
  std::vector<int> keys_;
  std::vector<Place> waiting_, in_flight_;  // ascending; few
  std::vector<std::unique_ptr<task::Event>> gates_;
};

}  // namespace taxon::exchange
