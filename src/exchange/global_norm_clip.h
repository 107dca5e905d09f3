#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/runtime.h"

namespace taxon::exchange {

/// A scalar over all buckets that must be known before any of them is updated: the squared norm of the whole
/// mean gradient, for clipping. Each bucket contributes what this rank owns, in whatever order; the one that
/// comes last adds them up in bucket order, has the owners' total made, and releases all. Absent from a step
/// when no rule asks.
class GlobalNormClip {
 public:
  GlobalNormClip(comm::Runtime& runtime, double clip_norm) : runtime_(runtime), clip_norm_(clip_norm) {}

  void begin(int buckets);
  /// Gives bucket `index`'s squared norm. True for the last one, who owes release().
  bool give(int index, double squared_norm);
  /// Sum of what was given.
  double given() const;
  void release(double total_squared_norm);
  /// Waits for it. Returns the factor for every gradient: min(1, clip / norm).
  task::Task<double> factor(std::string subject);
  /// Of the last complete step.
  double norm() const { return norm_; }

 private:
  comm::Runtime& runtime_;
  const double clip_norm_;
  std::vector<double> terms_;
  std::size_t missing_ = 0;
  std::unique_ptr<task::Event> complete_;
  double norm_ = 0;
};

}  // namespace taxon::exchange
