#pragma once

#include <memory>
#include <vector>

#include "exchange/bucket.h"
#include "exchange/lane.h"
#include "exchange/step_scope.h"
#include "exchange/topology.h"
#include "optim/rule.h"
#include "task/scope.h"

namespace taxon::exchange {

/// The memory that an exchange works on; one layout for all. Outlives the exchange.
struct Arenas {
  const tensor::Arena* gradients = nullptr;  // this rank's part of the mean gradient, then the sum
  const tensor::Arena* master = nullptr;     // what the rule updates
  const tensor::Arena* compute = nullptr;    // what the model reads; the master itself when the types agree
};

/// Reconciles replicas, bucket by bucket, beside the running backward pass and the next forward pass.
/// Executor's thread only.
class Exchange {
 public:
  /// `segments`: of the model. The plan says in which order buckets go and what clips.
  Exchange(comm::Runtime& runtime, std::vector<Bucket> buckets, int segments, Arenas arenas,
           std::unique_ptr<Topology> topology, optim::Rule& rule, const plan::Plan& plan);

  /// Starts one synchronous step over `backward`, whose mark b means that bucket b of the gradients is
  /// complete; the job outlives the step. REQUIRES: the last step is finished.
  void begin(tensor::Job& backward, optim::StepClock clock);
  /// True when the compute copy of every parameter of the model's segment has the values of the last step.
  bool is_ready(int segment) const;
  /// Suspends until it is.
  task::Task<void> ready(int segment);
  /// Suspends until the step is over everywhere in the compute copy. Throws the step's failure; everything in
  /// flight is unwound by then, but the backward job may still run.
  task::Task<void> finish();
  /// Fails the rank's operations with `why`, and ends when this step's are unwound.
  task::Task<void> abandon(std::exception_ptr why);

  const std::vector<Bucket>& buckets() const { return buckets_; }
  /// Since the start: time in rule, cast and norm kernels, which is compute although it runs here.
  Duration updating() const { return updating_; }
  /// Norm of the last mean gradient; 0 unless clipping asked for it.
  double gradient_norm() const { return scope_ ? scope_->norm() : 0; }

 private:
  task::Task<void> reconcile(const Bucket* bucket, tensor::Job* backward, optim::StepClock clock);
  task::Task<void> open_safe_point(tensor::Job* backward);
  task::Task<double> clip(const Bucket* bucket, Range owned);
  tensor::Kernel update_kernel(Range range, optim::StepClock clock);
  task::Task<void> update_here(const Bucket* bucket, Range range, optim::StepClock clock);
  task::Task<void> update(const Bucket* bucket, Range owned, optim::StepClock clock);
  task::Task<void> adopt(const Bucket* bucket);
  task::Task<void> run(const char* name, tensor::Kernel kernel, const Bucket* bucket);
  void adopted(const Bucket& bucket);

  comm::Runtime& runtime_;
  const std::vector<Bucket> buckets_;
  const Arenas arenas_;
  const std::unique_ptr<Topology> topology_;
  optim::Rule& rule_;
  const std::vector<int> order_;  // key of each bucket in the lane
  Lane lane_;
  Lane updates_;
  std::unique_ptr<StepScope> scope_;         // null when no rule asks
  std::unique_ptr<task::Event> safe_point_;  // the backward pass is over: no job reads the old weights
  const bool halves_;  // the compute lane is idle while updates run, and does half of each
  struct Gate {
    int missing = 0;                    // buckets of the segment that are not adopted yet
    std::unique_ptr<task::Event> open;  // null before the first step
  };
  std::vector<Gate> gates_;  // by segment
  task::Scope children_;
  Duration updating_{0};
};

}  // namespace taxon::exchange
