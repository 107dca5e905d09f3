#pragma once

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "net/transport.h"
#include "task/event.h"

namespace taxon::comm {

/// The ranks of a job that the others can do without, and those of them that are lost. Whoever waits for such
/// a rank says so with a guard, and its wait alone fails; the loss of any other rank ends the run
/// (task::PendingOps::cancel). Executor's thread only.
class FailureMonitor {
 public:
  explicit FailureMonitor(std::vector<Rank> expendable = {}) : expendable_(std::move(expendable)) {}
  FailureMonitor(const FailureMonitor&) = delete;

  bool is_expendable(Rank rank) const {
    return std::find(expendable_.begin(), expendable_.end(), rank) != expendable_.end();
  }
  bool has_expendable() const { return !expendable_.empty(); }
  /// The first time: fails what is guarded against this loss. REQUIRES: is_expendable(rank).
  void report_lost(Rank rank, std::exception_ptr why);
  /// Why the rank is lost; null if it is not.
  std::exception_ptr lost(Rank rank) const;

  /// Something that hears of one rank's loss. Listed while it lives.
  class Listener {
   public:
    Listener(FailureMonitor* failures, Rank rank);
    Listener(const Listener&) = delete;
    virtual ~Listener();

   protected:
    friend class FailureMonitor;
    /// Nothing more is heard afterwards. `this` may be gone when it returns.
    virtual void happened(std::exception_ptr why) = 0;
    FailureMonitor* const failures_;

   private:
    const Rank rank_;
    bool told_ = false;
  };

 private:
  std::vector<Rank> expendable_;
  std::vector<std::pair<Rank, std::exception_ptr>> lost_;
  std::vector<Listener*> listeners_;
};

/// Fails an operation when its peer is lost, or at once if it is. `failures` may be null: then it does
/// nothing. Of guarded operations that one coroutine awaits one after the other, those that come later are
/// guarded later: they fail first, while nobody waits for them.
class GuardedOp final : public FailureMonitor::Listener {
 public:
  GuardedOp(FailureMonitor* failures, net::Transport& transport, net::Op& op);

 private:
  void happened(std::exception_ptr why) override;
  net::Transport& transport_;
  net::Op& op_;
};

/// The same of an event that only a rank's answer matters to.
class GuardedEvent final : public FailureMonitor::Listener {
 public:
  GuardedEvent(FailureMonitor* failures, Rank rank, task::Event& event);

 private:
  void happened(std::exception_ptr why) override { event_.fail(why); }
  task::Event& event_;
};

/// True for the error of a lost rank that is expendable: of a guard, or of a transport that noticed it first,
/// in which case it is lost from now on.
bool is_expendable_loss(FailureMonitor* failures, Rank rank, const std::exception_ptr& error);

}  // namespace taxon::comm
