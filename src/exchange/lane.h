#pragma once

#include <memory>
#include <vector>

#include "comm/runtime.h"

namespace taxon::exchange {

/// Admits buckets to the network: in one order that is the same on every rank (ranks may complete gradients
/// in different orders, and credits spent on different buckets would wait for each other), and at most
/// `credits` at once.
class Lane {
 public:
  Lane(comm::Runtime& runtime, int credits) : runtime_(runtime), credits_(credits) {}

  /// A new step: the sequence starts at 0 again. REQUIRES: everybody of the last step has left.
  void begin(int buckets);

  /// Leaves the lane when it dies.
  class Turn {
   public:
    explicit Turn(Lane& lane) : lane_(&lane) {}
    Turn(Turn&& other) noexcept : lane_(std::exchange(other.lane_, nullptr)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (lane_) lane_->leave();
    }

   private:
    Lane* lane_;
  };
  /// Suspends until all buckets before `sequence` have entered and a credit is free.
  task::Task<Turn> enter(int sequence, std::string subject);

 private:
  void leave();
  void admit();
  comm::Runtime& runtime_;
  const int credits_;
  int in_flight_ = 0;
  int next_ = 0;
  std::vector<bool> waiting_;
  std::vector<std::unique_ptr<task::Event>> gates_;
};

}  // namespace taxon::exchange
