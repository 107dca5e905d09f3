#pragma once

#include <memory>
#include <vector>

#include "exchange/bucket_scheduler.h"
#include "exchange/layout/bucket.h"
#include "exchange/levels/levels.h"
#include "exchange/sync_schedule.h"
#include "optim/outer.h"
#include "task/scope.h"

namespace taxon::exchange {

/// Units of what travels beside the buckets where replicas meet: with averaged optimiser state (this, the
/// number of the state arena times kBucketsPerState, and the bucket's), and for what stands for the model.
inline constexpr std::uint32_t kInnerStateUnit = 0x60000000;
inline constexpr std::uint32_t kBucketsPerState = 1 << 20;
inline constexpr std::uint32_t kConsensusUnit = 0x58000000;

/// Where replicas that are trained apart meet: the last level of a plan that gives it a rule. After the
/// steps that its period names, what this rank owns of the weights is handed in, summed over the replicas
/// (or mixed with some of them), updated at its owner by the outer rule, and adopted some steps later, or at
/// once. In between, messages travel beside the local steps. Executor's thread only.
class OuterLoop {
 public:
  struct Setup {
    const Layout* layout = nullptr;  // outlives the meeting, as everything below does
    const plan::LevelPlan* plan = nullptr;
    Extensions own = {};
    std::size_t level = 0;    // of the plan in all levels, which buckets' rows are by
    Levels* inner = nullptr;  // that sum gradients: they pass on what was adopted
    Levels* outer = nullptr;  // the one level
    int members = 1;          // replicas that meet there
    optim::Rule* local = nullptr;
    const tensor::Arena* master = nullptr;     // this replica
    const tensor::Arena* compute = nullptr;    // what the model reads; the master itself when the types agree
    const tensor::Arena* handed_in = nullptr;  // of the weights' layout: contributions, then answers
  };
  OuterLoop(comm::Runtime& runtime, const Setup& setup);

  /// The owner's copy of the weights starts as the master.
  task::Task<void> begin();
  /// After the weights and whatever a checkpoint says of them are there: begins to answer others, where the
  /// topology has members that do.
  task::Task<void> serve();
  /// After so many steps: the others go on without this replica until its next meeting; it takes over what
  /// they made of it.
  task::Task<void> pause(std::int64_t step);
  /// For good. Returns when nobody expects an answer any more.
  task::Task<void> close();
  /// After `clock`'s step was applied to the replica: meets and adopts what is due, and returns when the
  /// replica may be read and changed again. No job uses the weights meanwhile.
  task::Task<void> after(optim::StepClock clock);
  /// True if after() would have something to do after that step (1 is the first).
  bool due_after(std::int64_t step) const;
  /// What is underway has come, and waits in `handed_in` for its adoption: for a checkpoint.
  task::Task<void> arrive();
  /// Goes on with answers that a checkpoint put into `handed_in` after `step` steps.
  void resume(std::int64_t step);
  /// A last meeting of whatever did not meet after this step, adopted at once.
  task::Task<void> conclude(optim::StepClock clock);
  /// `whole`, of the weights' layout and private, := what stands for the model: the mean over all replicas,
  /// or the centre. Collective over `all`, the group of all ranks.
  task::Task<void> gather_consensus(comm::Communicator& all, const tensor::Arena& whole);
  /// Fails the rank's operations with `why`, and ends when everything is unwound.
  task::Task<void> abandon(std::exception_ptr why);

  optim::OuterRule& rule() { return *rule_; }

 private:
  struct Unit {
    const Bucket* bucket = nullptr;
    int fragment = 0;
    std::vector<LevelAlgorithms> rows;      // of the one level
    Range owned;                            // by this rank, of what it hands in
    std::size_t state = 0;                  // where `owned` begins in the rule's state
    std::unique_ptr<task::Event> answered;  // while it is underway
    std::int64_t adopted_after = 0;
  };
  Range range(const Unit& unit) const { return unit.bucket->owned; }
  task::Task<void> hand_in(Unit* unit);
  task::Task<void> meet(Unit* unit, optim::StepClock clock);
  task::Task<void> update(Unit* unit, double weight, optim::StepClock clock);
  task::Task<void> average_inner_state(Unit* unit, std::int64_t round);
  task::Task<void> adopt(Unit* unit, std::int64_t step);
  task::Task<void> start(std::vector<Unit*> units, optim::StepClock clock);
  task::Task<void> adopt_all(std::vector<Unit*> units, std::int64_t step);
  BucketTransfer transfer(const Unit& unit, std::int64_t round) const;

  comm::Runtime& runtime_;
  const Setup setup_;
  const SyncSchedule schedule_;
  std::unique_ptr<optim::OuterRule> rule_;
  std::vector<Unit> units_;  // one for each bucket
  BucketScheduler scheduler_;
  task::Scope children_;
  task::Scope listeners_;
};

}  // namespace taxon::exchange
