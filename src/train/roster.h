#pragma once

#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "comm/losses.h"

namespace taxon::train {

/// Who of all ranks is still there, where workers may be lost: what they do together they do in a group that
/// everybody agrees about. Until the first dismiss(), and from each call() to the next, nobody can be done
/// without: a loss ends the run then.
class Roster final {
 public:
  /// `all`: every rank that ever was. `present`: the same ranks at first; call() narrows it. Both outlive the
  /// roster, as `losses` does.
  Roster(comm::Communicator& all, comm::Communicator& present, comm::Losses& losses);

  /// Every rank that is there: rank 0 waits for all, and says who came.
  task::Task<void> call();
  /// What was to be done together is done.
  void dismiss() { watches_.clear(); }
  /// Who was missing at the last call.
  std::vector<Rank> missing() const;

 private:
  /// Ends this rank's run when somebody is lost whom it counts on.
  class Watch final : public comm::Losses::Listener {
   public:
    Watch(comm::Losses* losses, Rank rank, task::Waits& waits) : Listener(losses, rank), waits_(waits) {}

   private:
    void happened(std::exception_ptr why) override { waits_.cancel(why); }
    task::Waits& waits_;
  };

  task::Task<void> count();
  task::Task<void> ask();
  void watch();
  net::Tag tag(std::uint32_t round) const;

  comm::Communicator& all_;
  comm::Communicator& present_;
  comm::Losses& losses_;
  std::uint32_t use_ = 0;
  std::vector<std::int64_t> here_;  // by rank: 1, or 0
  std::vector<std::unique_ptr<Watch>> watches_;
};

}  // namespace taxon::train
