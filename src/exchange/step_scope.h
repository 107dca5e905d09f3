#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/runtime.h"

namespace taxon::exchange {

/// A scalar over all buckets that must be known before any of them is updated: the squared norm of the whole
/// mean gradient, for clipping. Each bucket contributes what it owns; the last one releases all. Absent from
/// a step when no rule asks. With replicated state every rank holds every sum, so the ranks agree without a
/// message; the terms are added in bucket order.
class StepScope {
 public:
  StepScope(comm::Runtime& runtime, double clip_norm) : runtime_(runtime), clip_norm_(clip_norm) {}

  void begin(int buckets);
  /// Gives bucket `index`'s squared norm and waits for the others'. Returns the factor for every gradient:
  /// min(1, clip / norm).
  task::Task<double> agree(int index, double squared_norm, std::string subject);
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
