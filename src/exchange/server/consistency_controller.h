#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exchange/consistency/rule.h"

namespace taxon::exchange {

/// The clocks of one unit's workers at its owner: which contributions count, which make the next update, who
/// may go on, by a consistency rule. Pure data, no network: what it answers depends on the order of the calls
/// alone, and on the times that it is told where the rule reads them.
class ConsistencyController {
 public:
  static constexpr Instant kUntimed{};  // for rules that read no times
  ConsistencyController(int workers, std::unique_ptr<ConsistencyRule> rule);
  /// Everybody begins after so many updates.
  void set_out(std::int64_t version);

  enum class Arrival {
    Pooled,   // counts, in this update or a later one
    Dropped,  // too late: its worker's clock jumps to the common one
  };
  /// Worker `w`, who computed with the values of `base`, hands in its contribution of `clock` (its own count;
  /// it may have jumped elsewhere). `now`: when it came, for rules that read times.
  Arrival arrive(int w, std::int64_t clock, std::int64_t base, Instant now = kUntimed);
  /// False if worker `w` handed in its `number`-th contribution (0 is the first) before: one that it sends
  /// again because no answer came must not count twice.
  bool is_new(int w, std::int64_t number);
  /// True if the pool makes an update.
  bool full() const;
  struct Pooled {
    int worker = 0;
    std::size_t place = 0;       // how many came before it since the start
    std::int64_t staleness = 0;  // updates since the values that it was computed with
  };
  /// The contributions of the next update, in the order of the workers; their workers' clocks advance, and so
  /// does the version. Where a quorum makes updates, all of them go to the clock after the furthest: they and
  /// their like at other units differ in whom they dropped, and a worker that waited here for one that waits
  /// there would close a circle. (Whoever is in a pool is then ahead of all that this unit has answered, so
  /// the last worker of all always finds its pool full.) REQUIRES: full().
  std::vector<Pooled> take();
  /// Contributions of the pool that updates of a quorum have gone ahead of: they came before those updates
  /// began, but late gradients are never applied, and their workers, who may go on, would be ahead here of
  /// what they were told. They count no more; their workers' clocks jump to the common one. To be called
  /// after take().
  std::vector<Pooled> drop_late();
  /// True if `w` may have its answer.
  bool may_go(int w) const;
  /// A worker that pauses counts nowhere until its next arrival, or until all have paused: those who come
  /// back first must not get ahead of those who are still on their way.
  void pause(int w);
  /// The same for good. What it handed in stays.
  void leave(int w);
  /// Workers that have not left.
  int present() const;

  std::int64_t clock(int w) const { return worker(w).clock; }
  /// The largest of all.
  std::int64_t furthest() const;
  /// Contributions that worker `w` handed in.
  std::int64_t handed_in(int w) const { return worker(w).handed_in; }
  /// The quorum-th largest clock of those that take part; how far training is when none does. With a quorum
  /// of some it never falls.
  std::int64_t common() const { return common_for(-1); }
  std::int64_t version() const { return version_; }
  /// "version 7, clocks 7 7 6+1 (5), common 7": +1 is in the pool, in brackets pauses; and what the rule
  /// says.
  std::string describe() const;

 private:
  struct Waiting {
    int worker = 0;
    std::size_t place = 0;
    std::int64_t base = 0;
  };
  int taking_part() const;
  void go_on_together();
  int needed() const;
  std::int64_t lead(int w) const;
  /// Of those that `w` waits for; w < 0: of all.
  std::int64_t common_for(int w) const;
  /// Clocks that it is behind the common one, beyond what it may: it counts no more.
  bool is_late(int w, std::int64_t common) const;
  WorkerClock& worker(int w) { return workers_[static_cast<std::size_t>(w)]; }
  const WorkerClock& worker(int w) const { return workers_[static_cast<std::size_t>(w)]; }

  std::vector<WorkerClock> workers_;
  std::unique_ptr<ConsistencyRule> rule_;
  std::vector<Waiting> pool_;
  std::size_t arrivals_ = 0;
  std::int64_t reached_ = 0;  // by a quorum of some
  std::int64_t version_ = 0;
};

}  // namespace taxon::exchange
