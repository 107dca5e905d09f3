#pragma once

#include <vector>

#include "sim/event_queue.h"

namespace taxon::sim {

/// Work on a machine's cores, up to its next milestone.
class CoreWork {
 public:
  virtual ~CoreWork() = default;
  /// The milestone is reached. The work is no longer on the machine; it may go on it again.
  virtual void reached() = 0;

 private:
  friend class Machine;
  std::size_t host_ = 0;
  double demand_ = 0;  // cores
  double left_ = 0;    // picoseconds at full speed
};

/// What a host may use of its machine.
struct CoreShare {
  double cores = 0;
  /// Above 0: cores x period of processor time are dealt out at the start of every period, as a control group
  /// does; who has used it up stands still until the next. 0: so many cores at any time.
  Duration period{0};
  Duration phase{0};  // of the first period's start, below `period`
};

/// Cores that hosts share, and each host's share of them. Work at full speed uses `demand` cores; where a
/// host's work wants more than the host may use, or all hosts together more than there are, all of the
/// host's, or all, is slowed down alike. Processor sharing, without the scheduler's time slices.
class Machine final : private Action {
 public:
  Machine(EventQueue& queue, double cores) : queue_(queue), cores_(cores) {}
  Machine(const Machine&) = delete;
  virtual ~Machine() = default;

  /// A host; its number.
  std::size_t add_host(CoreShare share);
  /// Puts `work` on the machine; reached() is called after `time` at full speed, or later.
  void run(CoreWork& work, std::size_t host, double demand, Duration time);

 private:
  struct Host {
    CoreShare share;
    double demand = 0;
    double speed = 1;
    double budget = 0;  // of this period: picoseconds of one core
    Instant refill{};   // the next period's start
    bool has_quota() const { return share.period > Duration(0); }
    double usable() const;
  };
  void happen(std::uint64_t generation) override;
  void advance();
  void deal_out();
  void share_out();
  void plan_next();

  EventQueue& queue_;
  double cores_;
  std::vector<Host> hosts_;
  std::vector<CoreWork*> running_;  // in the order in which they came
  Instant last_{};
  std::uint64_t generation_ = 0;  // events of older ones are void
  bool reaching_ = false;
};

}  // namespace taxon::sim
