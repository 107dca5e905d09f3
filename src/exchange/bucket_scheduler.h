#pragma once

#include <memory>
#include <vector>

#include "comm/collectives.h"

namespace taxon::exchange {

/// Admits buckets to the network: at most `credits` at once, of those that wait the one with the smallest
/// (key, index) first. A bucket that comes before all in flight needs no credit: it overtakes them, which is
/// what priorities are for, and it keeps ranks that complete gradients in different orders from waiting for
/// each other with their credits spent on different buckets. (The first unfinished bucket of all is admitted
/// on every rank as soon as it is complete there, so it ends; then the next is the first.)
///
/// While one with a smaller key than others is in flight, of these only the first has several messages on
/// their way. At each of a ring's 2 (n - 1) hops what overtakes would else wait behind all that overtaken
/// buckets have queued; and with one message of each the link has something to do while what is urgent waits
/// for the other ranks.
class BucketScheduler {
 public:
  BucketScheduler(comm::Runtime& runtime, int credits) : runtime_(runtime), credits_(credits) {}

  /// A new step over keys.size() buckets; equal keys go by index. REQUIRES: everybody of the last step has
  /// left.
  void begin(std::vector<int> keys);

  /// Leaves the scheduler when it dies.
  class Admission final : public comm::Precedence {
   public:
    Admission(BucketScheduler& lane, int index) : scheduler_(&lane), index_(index) {}
    Admission(Admission&& other) noexcept
        : scheduler_(std::exchange(other.scheduler_, nullptr)), index_(other.index_) {}
    Admission& operator=(Admission&&) = delete;
    ~Admission() {
      if (scheduler_) scheduler_->leave(index_);
    }
    bool runs_ahead() const override { return scheduler_->runs_ahead(index_); }

   private:
    BucketScheduler* scheduler_;
    int index_;
  };
  /// Suspends until bucket `index` is admitted.
  task::Task<Admission> enter(int index, std::string subject);

 private:
  using Priority = std::pair<int, int>;  // key, index
  Priority priority(int index) const { return {keys_[static_cast<std::size_t>(index)], index}; }
  void leave(int index);
  void admit();
  bool runs_ahead(int index) const;
  comm::Runtime& runtime_;
  const int credits_;
  std::vector<int> keys_;
  std::vector<Priority> waiting_, in_flight_;  // ascending; few
  std::vector<std::unique_ptr<task::Event>> gates_;
};

}  // namespace taxon::exchange
