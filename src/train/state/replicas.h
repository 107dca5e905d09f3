#pragma once

#include <memory>
#include <vector>

#include "exchange/outer_loop.h"
#include "exchange/server/parameter_server.h"
#include "train/start/resume.h"

namespace taxon::train {

/// Whether what a checkpoint has of a rank is of a replica that trained apart from others.
bool trained_apart(const std::vector<checkpoint::LogicalTensor>& of_rank);

/// The replicas of a plan whose ranks don't have the same weights after every step: they train apart and meet
/// now and then, or servers own the weights. For other plans it is empty. Calls that return tasks are
/// collective over all ranks.
class Replicas {
 public:
  struct Setup {
    State* state = nullptr;                    // outlives it, as everything here does
    const plan::Plan* plan = nullptr;          // resolved
    std::int64_t total = 0;                    // samples of the whole training
    exchange::EventLog log;                    // of this rank as a server
    comm::FailureMonitor* failures = nullptr;  // of workers that servers can do without
    exchange::Extensions own = {};
    Observer* observer = nullptr;
  };
  /// State of what this rank owns of the weights, one part for each bucket, one after the other.
  struct Owned {
    std::string name;
    const tensor::Arena* values;
    std::vector<Range> ranges;  // of the weights
  };
  /// `ranks`' levels outlive it.
  Replicas(comm::Runtime& runtime, RankGroups ranks, const Setup& setup);

  /// True if ranks' weights may differ.
  bool apart() const { return outer_loop_ || served_; }
  /// Null where replicas don't meet.
  exchange::OuterLoop* outer_loop() { return outer_loop_.get(); }

  /// After the weights are there; with what a checkpoint said of this rank, if it was of as many ranks.
  task::Task<void> begin(const RunStart* run_start);
  /// What servers own has all that workers did before. REQUIRES: workers are settled.
  task::Task<void> arrive();
  /// The weights := what stands for the model, until restore_local() brings this rank's own back.
  task::Task<void> load_consensus();
  task::Task<void> restore_local();
  /// While all come together, after so many steps: the others go on without this worker until its next
  /// contribution.
  task::Task<void> pause(std::int64_t step);
  /// After the last step: the workers tell whoever answers them, who end.
  task::Task<void> close();
  task::Task<void> abandon(std::exception_ptr why);
  /// What this rank sent for load_consensus() so far.
  std::uint64_t consensus_bytes() const { return consensus_bytes_; }
  /// How late contributions were at all servers. REQUIRES: servers own something.
  struct Staleness {
    std::vector<double> counts;  // by how many updates late
    double dropped = 0;          // came too late to count
  };
  task::Task<Staleness> count_staleness() const;
  /// What a checkpoint must know of this rank. REQUIRES: nothing is shown, and the meeting's answers have
  /// come. For bodies of kernels.
  std::vector<checkpoint::LogicalTensor> tensors() const;

 private:
  void fill(const RunStart& run_start);
  std::vector<Owned> owned() const;
  void make_other();
  task::Task<void> gather_owned();
  task::Task<void> swap();

  comm::Runtime& runtime_;
  RankGroups ranks_;
  State* state_;
  Observer* observer_;
  const plan::LevelPlan* served_ = nullptr;
  std::unique_ptr<exchange::OuterLoop> outer_loop_;
  std::unique_ptr<exchange::ParameterServer> server_;
  std::uint64_t consensus_bytes_ = 0;
  tensor::Arena other_;  // what is not shown now; of replicas that begin, what stands for the model
};

}  // namespace taxon::train
