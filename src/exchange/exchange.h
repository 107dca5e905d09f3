#pragma once

#include <memory>
#include <vector>

#include "exchange/bucket_scheduler.h"
#include "exchange/divergence.h"
#include "exchange/global_norm_clip.h"
#include "exchange/layout/bucket.h"
#include "exchange/levels/levels.h"
#include "optim/rule.h"
#include "task/scope.h"

namespace taxon::exchange {

/// The memory that an exchange works on. Outlives the exchange.
struct Arenas {
  const tensor::Arena* gradients = nullptr;  // this rank's part of the mean gradient, then sums
  const tensor::Arena* sums = nullptr;       // what the rule reads: the gradients, or a shard beside a ring
  const tensor::Arena* master = nullptr;     // what the rule updates: all weights, or those that are kept
  const tensor::Arena* compute = nullptr;    // what the model reads; the master itself when the types agree
                                             // and all weights are there
  const tensor::Arena* factors = nullptr;    // of buckets that have some; null: none has
};

/// Reconciles replicas, bucket by bucket, beside the running backward pass and the next forward pass. One
/// step at a time; two exchanges with different lanes may have two steps in flight, on the same weights.
/// Executor's thread only.
class Exchange {
 public:
  struct Setup {
    const Layout* layout = nullptr;  // outlives the exchange
    int segments = 1;                // of the model
    Arenas arenas;
    Levels* levels = nullptr;          // outlives the exchange
    optim::Rule* rule = nullptr;       // outlives the exchange
    const plan::Plan* plan = nullptr;  // read in the constructor
    std::uint16_t lane = 0;
    // Of a model that ranks hold parts of; they outlive the exchange:
    std::vector<comm::Communicator*> summands = {};  // see Summands
    comm::Communicator* replica = nullptr;  // those that hold the parts of one; null: this rank has all of it
    bool by_tensor = false;                 // the rule's updates get whole tensors: optim::RuleRow::by_tensor
    int team = 1;  // threads that the model's passes compute with, and updates after them: Model::team()
  };
  Exchange(comm::Runtime& runtime, const Setup& setup);

  /// Starts a synchronous step. REQUIRES: the last one is finished.
  void begin(optim::StepClock clock);
  /// Suspends until the gradients of the model's segment may be written: at once, unless their memory is a
  /// ring.
  task::Task<void> room(int segment);
  /// Buckets whose segments are all >= `segment`, as far as no earlier call had them, are completed by
  /// `backward`, whose mark b means bucket b. The job outlives the step. With segment 0: all of them.
  void contribute(tensor::KernelHandle& backward, int segment);
  /// Whether contribute() awaits the marks of its jobs; otherwise only safe_point(), and they need none.
  bool awaits_marks() const { return !at_once_; }
  /// The first bucket, in the order of the backward pass, whose gradient at this rank is not finite; null:
  /// all are. REQUIRES: the backward pass is over, and nothing has been contributed.
  task::Task<const Bucket*> find_not_finite();
  /// Goes on with buckets whose sums are there already: those of a step that a checkpoint interrupted.
  void go_on_with_sums();
  /// No job reads the weights of before the step any more: they may change from now on.
  void safe_point();

  /// Suspends until all sums are there. REQUIRES: everything was contributed.
  task::Task<void> summed();
  /// True when the compute copy of every parameter of the model's segment has the values of the last step.
  bool is_ready(int segment) const;
  /// Suspends until it is.
  task::Task<void> ready(int segment);
  /// The same of what one bucket holds.
  task::Task<void> adopted(std::size_t bucket);
  /// Suspends until the step is over everywhere in the compute copy. Throws the step's failure; everything in
  /// flight is unwound by then, but the backward job may still run.
  task::Task<void> finish();
  /// Fails the rank's operations with `why`, and ends when this step's are unwound.
  task::Task<void> abandon(std::exception_ptr why);
  /// True from begin() to the end of finish().
  bool underway() const { return underway_; }
  optim::StepClock step_clock() const { return clock_; }

  const std::vector<Bucket>& buckets() const { return layout_.buckets; }
  /// Since the start: time in rule, cast and norm kernels, which is compute although it runs here.
  Duration updating() const { return updating_; }
  /// Norm of the last mean gradient; 0 unless clipping asked for it.
  double gradient_norm() const { return scope_ ? scope_->norm() : 0; }

 private:
  enum class Sums { ToCome, There };
  task::Task<void> reconcile(const Bucket* bucket, tensor::KernelHandle* backward, Sums sums);
  task::Task<void> reduce(const Bucket* bucket, tensor::KernelHandle* backward);
  task::Task<bool> is_finite(const Bucket* bucket, int team);
  task::Task<void> require_finite(const Bucket* bucket);
  Error not_finite(const Bucket& bucket) const;
  task::Task<void> examine(const Bucket* bucket);
  task::Task<void> contribute(const Bucket* bucket);
  task::Task<void> keep(const Bucket* bucket);
  task::Task<void> among_summands(const Bucket* bucket, net::Operation collective, Range sums);
  task::Task<double> squared_norm_of_all(double owned);
  task::Task<double> clip(const Bucket* bucket);
  /// Whether its update is worth the compute stream's threads.
  bool is_shared(const Bucket& bucket) const;
  bool is_examined_by_update() const;
  tensor::Kernel update_kernel(const Bucket* bucket, Range range, optim::StepClock clock);
  task::Task<void> update_at_once();
  task::Task<void> update_by_team(const Bucket* bucket, optim::StepClock clock);
  task::Task<void> update_here(const Bucket* bucket, std::vector<Range> pieces, optim::StepClock clock);
  task::Task<void> update(const Bucket* bucket, optim::StepClock clock);
  task::Task<void> spread(const Bucket* bucket);
  task::Task<void> adopt(const Bucket* bucket);
  /// Of this bucket; null: of all.
  task::Task<void> run(const char* name, tensor::Kernel kernel, const Bucket* bucket,
                       tensor::Stream stream = tensor::Stream::Exchange);
  bool is_alone() const;
  bool is_plain() const;
  void open_gates(const Bucket& bucket);
  bool aliased() const { return arenas_.master == arenas_.compute; }
  bool in_ring() const { return arenas_.sums != arenas_.gradients; }
  /// Where the sum of bucket.owned begins in arenas_.sums.
  std::size_t sums_of(const Bucket& bucket) const {
    return in_ring() ? bucket.shard : bucket.owned_gradients().begin;
  }
  BucketTransfer transfer(const Bucket& bucket, Range range) const {
    return {.unit = static_cast<std::uint32_t>(bucket.id.value()),
            .lane = wire_lane_,
            .range = range,
            .rows = &bucket.rows,
            .round = clock_.step,
            .lasts = !in_ring()};
  }

  comm::Runtime& runtime_;
  const Layout& layout_;
  const Arenas arenas_;
  Levels& levels_;
  optim::Rule& rule_;
  const std::uint16_t wire_lane_;
  const std::vector<comm::Communicator*> summands_;
  const bool in_strips_;  // summands meet before the replicas do
  comm::Communicator* const replica_;
  const std::vector<int> order_;  // key of each bucket for its scheduler
  const bool stops_;              // at a gradient that is not finite
  const bool delayed_;            // the master too changes at the safe point only
  const bool shares_;             // the compute stream is idle while updates run, and takes part
  const int team_;                // its threads, that do so
  const bool alone_;              // nobody waits for this rank's gradients: they are looked at then, too
  const bool by_tensor_;
  const bool at_once_;  // nor does anything else come before their update: all of it is one kernel
  BucketScheduler outward_, back_;
  BucketScheduler updates_;
  std::unique_ptr<GlobalNormClip> scope_;  // null when no rule asks

  optim::StepClock clock_;
  bool underway_ = false;
  std::vector<char> contributed_;                     // by bucket
  std::unique_ptr<task::Event> safe_point_;           // no job reads the old weights
  std::vector<std::unique_ptr<task::Event>> summed_;  // by bucket: its gradients' memory is free, if a ring's
  struct Gate {
    int missing = 0;                    // buckets of the segment that are not adopted yet
    std::unique_ptr<task::Event> open;  // null before the first step
  };
  std::vector<Gate> gates_;                            // by segment
  std::vector<std::unique_ptr<task::Event>> adopted_;  // by bucket; empty before the first step
  task::Scope children_;
  Duration updating_{0};
  Instant updated_until_;
};

}  // namespace taxon::exchange
