#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exchange/compression/aggregation.h"
#include "exchange/layout/bucket.h"

namespace taxon::exchange {

// Gradients of linear layers as sufficient factors (Xie et al., "Distributed machine learning via sufficient
// factor broadcasting", UAI 2016; Zhang et al., "Poseidon", USENIX ATC 2017): the gradient of a weight of M x
// N is D^T X, with a row of M numbers and one of N for each of K samples. Every member sends its K (M + N)
// numbers to all others, and all make the same sum of all members' products.

/// One weight [outputs, inputs], at `members` that have at most `rows` samples each in a step.
struct FactorCase {
  std::int64_t outputs = 0, inputs = 0, rows = 0;
  int members = 1;
  /// Numbers that a member sends, either way; what an all-reduce moves is the least that one can.
  double as_factors() const {
    return static_cast<double>(rows) * (members - 1) * static_cast<double>(outputs + inputs);
  }
  double as_sum() const {
    return 2.0 * (members - 1) / members * static_cast<double>(outputs) * static_cast<double>(inputs);
  }
  /// Poseidon's rule. Equal ways stay sums, which cost no products.
  bool pays() const { return as_factors() < as_sum(); }
};

/// Who hands in: members of the plan's first level, of a job of `world_size` ranks.
struct FactorGroup {
  int members = 1;
  int world_size = 1;
};

/// Sets Tensor::factors where the plan's first level wants it, for a run that starts fresh.
void choose_factors(std::vector<Tensor>& tensors, const plan::Plan& plan, FactorGroup group);
/// Before resolve_exchange(): sizes the factors of recorded buckets for this group. What a run began with
/// stays when it resumes with other ranks, unless its plan wants none any more.
void size_factors(plan::Plan& plan, const std::vector<Tensor>& tensors, FactorGroup group);
/// After it: says for every linear layer how its gradient travels, and why.
void explain_factors(plan::Plan& plan, const std::vector<Tensor>& tensors, FactorGroup group);
/// What a run says at its beginning; empty if its plan wants no factors.
std::string describe_factors(const plan::Plan& plan);

/// Places for the factors of recorded buckets at `rank` of `members`.
void lay_out_factors(Layout& layout, const std::vector<plan::BucketPlan>& buckets, int members, int rank);

/// The sum over the group of transfer.factors in transfer.range of `sums`, whose first elements are the
/// matrix. Adds what it took to `work`. Everything outlives the task.
task::Task<void> sum_factors(comm::Communicator* group, LevelTransfer transfer, const tensor::Arena* sums,
                             CodecWork* work);

}  // namespace taxon::exchange
