#pragma once

#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "comm/failure_monitor.h"

namespace taxon::train {

/// Who of all ranks is still there, where workers may be lost: what they do together they do in a group that
/// everybody agrees about. Until the first part(), and from each call() to the next, nobody can be done
/// without: a loss ends the run then.
class Membership final {
 public:
  /// `all`: every rank that ever was. `present`: the same ranks at first; call() narrows it. Both outlive the
  /// membership, as `failures` does.
  Membership(comm::Communicator& all, comm::Communicator& present, comm::FailureMonitor& failures);

  /// Every rank that is there: rank 0 waits for all, and says who came.
  task::Task<void> call();
  /// What was to be done together is done at this rank. Rank 0 waits for all: only then does it know that a
  /// loss ends nobody's run.
  task::Task<void> part();
  /// At rank 0: some rank may still need all that were counted.
  bool together() const { return together_; }
  /// Who was missing at the last call.
  std::vector<Rank> missing() const;

 private:
  /// Ends this rank's run when somebody is lost whom it counts on.
  class Watch final : public comm::FailureMonitor::Listener {
   public:
    Watch(comm::FailureMonitor* failures, Rank rank, task::PendingOps& pending)
        : Listener(failures, rank), pending_(pending) {}

   private:
    void happened(std::exception_ptr why) override { pending_.cancel(why); }
    task::PendingOps& pending_;
  };

  task::Task<void> count();
  task::Task<void> receive(int member, std::uint32_t round, std::int64_t* said);
  task::Task<void> say(std::uint32_t round);
  task::Task<void> ask();
  void watch();
  net::Tag tag(std::uint32_t round) const;

  comm::Communicator& all_;
  comm::Communicator& present_;
  comm::FailureMonitor& failures_;
  std::uint32_t use_ = 0;
  bool together_ = true;
  std::vector<std::int64_t> here_;  // by rank: 1, or 0
  std::vector<std::unique_ptr<Watch>> watches_;
};

}  // namespace taxon::train
