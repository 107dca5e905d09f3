#pragma once

#include <span>

#include "train/start/resume.h"

namespace taxon::train {

/// How many samples of a step the gradients of this rank stand for, on its own and with those that they are
/// summed with.
class SampleWeights {
 public:
  /// `workers`: replicas that share a batch, the first ones on the axis of data. `ranks`: established.
  SampleWeights(const RankGroups& ranks, int workers);

  /// Of a batch of so many samples, those of what this rank contributes: where a group's gradients become one
  /// contribution to others, the group's.
  std::int64_t contributed(std::int64_t batch) const { return samples_of(batch, contributors_); }
  /// Those that gradients are the mean over: all, or where replicas meet those that make one replica, at
  /// least 1.
  std::int64_t mean_over(std::int64_t batch) const;

 private:
  std::int64_t samples_of(std::int64_t batch, std::span<const Rank> members) const;

  std::size_t workers_;
  std::vector<Rank> contributors_;
  std::vector<Rank> replica_;  // empty: all
};

}  // namespace taxon::train
