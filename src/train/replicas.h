#pragma once

#include <memory>
#include <vector>

#include "exchange/meeting.h"
#include "train/start.h"

namespace taxon::train {

/// The replicas of a plan whose ranks train apart and meet now and then. For a plan without such a level it
/// is empty: every rank has the same weights after every step. Calls that return tasks are collective over
/// all ranks.
class Replicas {
 public:
  /// `ranks.outer`, `state` and `plan` outlive it.
  Replicas(comm::Runtime& runtime, Ranks ranks, State* state, const plan::Plan* plan);

  /// True if ranks' weights differ between meetings.
  bool apart() const { return meeting_ != nullptr; }
  /// REQUIRES: apart().
  exchange::Meeting& meeting() { return *meeting_; }

  /// After the weights are there; with what a checkpoint said of this rank, if it was of as many ranks.
  task::Task<void> begin(const Beginning* beginning);
  /// The weights := what stands for the model, until hide() brings this rank's own back.
  task::Task<void> show();
  task::Task<void> hide();
  /// What this rank sent for show() so far.
  std::uint64_t bytes_shown() const { return bytes_shown_; }
  /// What a checkpoint must know of this rank. REQUIRES: nothing is shown, and the meeting's answers have
  /// come. For bodies of kernels.
  std::vector<checkpoint::LogicalTensor> tensors() const;

 private:
  void fill(const std::vector<checkpoint::LogicalTensor>& tensors);
  task::Task<void> swap();

  comm::Runtime& runtime_;
  Ranks ranks_;
  State* state_;
  std::unique_ptr<exchange::Meeting> meeting_;
  std::uint64_t bytes_shown_ = 0;
  tensor::Arena other_;  // what is not shown now: made at the first show()
};

}  // namespace taxon::train
