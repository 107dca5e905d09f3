#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/named.h"
#include "base/view.h"
#include "exchange/levels/topology.h"
#include "optim/rule.h"
#include "plan/plan.h"
#include "tensor/arena.h"

namespace taxon::exchange {

/// One tensor whose gradient travels.
struct Tensor {
  std::string name;
  std::vector<std::int64_t> shape;
  int segment = 0;                  // of the model: the first part of the forward pass that reads it
  bool linear = false;              // its gradient has sufficient factors
  std::int64_t factors = 0;         // bytes of those that a member hands in; 0: it travels as it is
  int apart = 0;                    // tensors whose numbers differ share no bucket
  std::vector<int> borrowers = {};  // segments beside it that read the tensor too
  std::int64_t count() const;
};

/// Where ranks that divide a model among them each make a summand of a gradient: it is summed over them,
/// after the replicas' sum.
struct Summands {
  std::size_t group = 0;   // in Exchange::Setup::summands
  std::uint32_t unit = 0;  // the same at every member
};

/// A run of neighbouring slots of the arenas, or a part of one slot, that is exchanged as one unit.
struct Bucket {
  BucketId id;
  Range range;                        // elements of the weights, padding between its slots included
  std::string name;                   // "bucket 2 (conv2.weight .. conv1.bias)", for reports
  std::vector<int> segments;          // of the model that read it, ascending
  std::vector<LevelAlgorithms> rows;  // by level

  Range gradients;            // elements of the gradient arena: the same as `range`, or a place in the ring
  std::vector<int> after;     // buckets whose gradients lie there before it in a step
  SufficientFactors factors;  // in place of its gradients; none: rows is 0
  Range owned;                // the part of `range` that this rank updates
  std::size_t shard = 0;      // where it begins in arenas of what this rank owns
  Range kept;                 // where it lies in the master weights: the same as `owned`, or in a shard
  Range gathered;  // where `range` lies while it is read, if a rank keeps only its parts; see keep_parts()
  // Of a model that ranks hold parts of:
  std::optional<Summands> summands;  // none: its gradient is whole at this rank
  bool counted = true;               // in the norm of all gradients; some other rank counts it otherwise
  /// The part of `gradients` that holds the sums of `owned`.
  Range owned_gradients() const { return {gradients.begin + (owned.begin - range.begin), owned.size}; }
};

/// Cuts `tensors`, given in the order in which the backward pass completes them, into buckets of at most
/// exchange.bucket_bytes. A tensor that is larger gets a bucket of its own, and one that is larger than
/// exchange.slice_bytes one for each of its equal parts; one that travels as factors, one for all. With a
/// `global` codec neither size counts. Where a codec leaves small buckets dense (dense_below), tensors of
/// fewer values get buckets of their own that are small enough. Pure: rank 0 decides, the plan records it.
std::vector<plan::BucketPlan> cut_buckets(const std::vector<Tensor>& tensors, DType type,
                                          const plan::ExchangePlan& plan);
/// The same for a whole plan: in its master type, and with dedicated servers into parts of the model that are
/// small enough for answers to travel while contributions still do. Each link of a worker and a server
/// carries as much one way as the other; a model in one piece would use one way at a time.
/// `slices`: None for an update rule that needs whole tensors, whatever slice_bytes says.
enum class Slices { AsPlanned, None };
inline Slices slices_for(const optim::RuleRow& rule) {
  return rule.by_tensor ? Slices::None : Slices::AsPlanned;
}
std::vector<plan::BucketPlan> cut_buckets(const std::vector<Tensor>& tensors, const plan::Plan& plan,
                                          Slices slices = Slices::AsPlanned);

/// The arenas' layout and the buckets' ranges for recorded buckets, with whole gradients of which this rank
/// owns everything. Throws Error{Mismatch} if a parameter is
/// missing in `tensors`, one of `tensors` is in no bucket or the parts of one are not all there, one after
/// the other: the recording belongs to another model.
struct Layout {
  tensor::ArenaLayout arena;
  std::vector<int> tensors;  // slot -> index into `tensors`
  std::vector<Bucket> buckets;
  std::size_t gradients = 0;  // elements of the gradient arena
  std::size_t shard = 0;      // elements that this rank owns, padding included; all: shards are the arenas
  std::size_t factors = 0;    // elements of the arena of factors
  std::size_t gathered = 0;   // of that of gathered weights; 0: every rank has all of them
};
Layout lay_out(const std::vector<Tensor>& tensors, const std::vector<plan::BucketPlan>& buckets, DType type);

}  // namespace taxon::exchange
