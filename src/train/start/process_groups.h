#pragma once

#include <memory>
#include <vector>

#include "comm/failure_monitor.h"
#include "exchange/replay/replay_gate.h"
#include "train/start/resume.h"
#include "train/sync/membership.h"

namespace taxon::train {

/// The groups that a run's ranks work in: of all that ever were, of those that are there, and of the levels
/// of the plan.
class ProcessGroups {
 public:
  /// `options` outlive it. `log`: of this rank, for levels whose ranks don't keep step.
  ProcessGroups(comm::Runtime& runtime, const TrainOptions& options, const exchange::EventLog& log);

  /// Collective, first: every group learns who shares memory, and the levels which ranks make a node.
  task::Task<void> establish();
  /// What is known of the groups before anything travels, with so many ranks in a node: they have their
  /// members, and nothing else of them counts. For forecasts, in place of establish().
  void foresee(int node);
  /// Collective: collectives in mapped memory reach what they need of `state`.
  task::Task<void> share(const State* state);

  // From establish() or foresee() on.

  /// References that hold as long as this.
  RankGroups ranks() {
    return {group_,           lasting(),      agreement_, position_,    data(),
            data_agreement(), replica_.get(), *levels_,   outer_.get(), node_};
  }
  const exchange::Levels& levels() const { return *levels_; }
  /// Of workers that the others can do without; null: any loss ends the run.
  comm::FailureMonitor* failures() const { return failures_; }
  /// Null: nobody can be done without.
  Membership* membership() { return membership_.get(); }

 private:
  comm::Communicator& lasting() { return all_ ? *all_ : group_; }
  comm::Communicator& data() { return data_ ? *data_ : group_; }
  Agreement& data_agreement() { return data_agreement_ ? *data_agreement_ : agreement_; }

  comm::Runtime& runtime_;
  const TrainOptions& options_;
  const exchange::EventLog log_;
  comm::FailureMonitor* const failures_;
  comm::Communicator group_;  // of the ranks that are there
  Agreement agreement_;
  const plan::MeshPosition position_;
  // Null: the model is not divided, and all hold the same of it.
  std::unique_ptr<comm::Communicator> data_;
  std::unique_ptr<Agreement> data_agreement_;
  std::unique_ptr<ReplicaGroup> replica_;
  std::unique_ptr<comm::Communicator> all_;  // null, as the membership: nobody can be done without
  std::unique_ptr<Membership> membership_;
  int node_ = 0;
  std::unique_ptr<exchange::Levels> levels_;
  std::unique_ptr<exchange::Levels> outer_;  // null: replicas are always equal
};

}  // namespace taxon::train
