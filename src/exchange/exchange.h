#pragma once

#include <memory>
#include <vector>

#include "exchange/bucket.h"
#include "exchange/lane.h"
#include "exchange/step_scope.h"
#include "exchange/topology.h"
#include "optim/rule.h"

namespace taxon::exchange {

/// The memory that an exchange works on; one layout for all. Outlives the exchange.
struct Arenas {
  const tensor::Arena* gradients = nullptr;  // this rank's part of the mean gradient, then the sum
  const tensor::Arena* master = nullptr;     // what the rule updates
  const tensor::Arena* compute = nullptr;    // what the model reads; the master itself when the types agree
};

/// How long the parts of one step took, for reports.
struct StepTimes {
  Duration update{0};             // rule and cast kernels, all buckets
  Duration update_after_safe{0};  // the part of them after the safe point
  Instant backward_end;           // when the safe point opened
};

/// Reconciles replicas, bucket by bucket, beside the running backward pass. Executor's thread only.
class Exchange {
 public:
  Exchange(comm::Runtime& runtime, std::vector<Bucket> buckets, Arenas arenas,
           std::unique_ptr<Topology> topology, optim::Rule& rule, const plan::Plan& plan);

  /// One synchronous step over `backward`, whose mark b means that bucket b of the gradients is complete.
  /// Ends when every bucket of the compute copy has its new values. On failure everything in flight is
  /// unwound before it throws; `backward` may still run.
  task::Task<void> step(tensor::Job& backward, optim::StepClock clock);

  const std::vector<Bucket>& buckets() const { return buckets_; }
  const StepTimes& times() const { return times_; }
  /// Norm of the last mean gradient; 0 unless clipping asked for it.
  double gradient_norm() const { return scope_ ? scope_->norm() : 0; }

 private:
  task::Task<void> reconcile(const Bucket* bucket, tensor::Job* backward, optim::StepClock clock);
  task::Task<void> open_safe_point(tensor::Job* backward);
  task::Task<double> clip(const Bucket* bucket, Range owned);
  task::Task<void> update(const Bucket* bucket, Range owned, optim::StepClock clock);
  task::Task<void> adopt(const Bucket* bucket);
  task::Task<void> run(const char* name, tensor::Kernel kernel, const Bucket* bucket);

  comm::Runtime& runtime_;
  const std::vector<Bucket> buckets_;
  const Arenas arenas_;
  const std::unique_ptr<Topology> topology_;
  optim::Rule& rule_;
  Lane lane_;
  std::unique_ptr<StepScope> scope_;         // null when no rule asks
  std::unique_ptr<task::Event> safe_point_;  // no job reads the weights any more
  StepTimes times_;
};

}  // namespace taxon::exchange
