#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/named.h"
#include "base/view.h"
#include "comm/collectives.h"
#include "plan/plan.h"
#include "tensor/arena.h"

namespace taxon::exchange {

/// One tensor whose gradient travels.
struct Tensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t count() const;
};

/// A run of neighbouring slots of the arenas that is exchanged as one unit.
struct Bucket {
  BucketId id;
  Range range;       // elements of the arenas, padding between its slots included
  std::string name;  // "bucket 2 (conv2.weight .. conv1.bias)", for reports
  const comm::CollectiveRow* collective = nullptr;
};

/// Cuts `tensors`, given in the order in which the backward pass completes them, into buckets of at most
/// `bucket_bytes`; a larger tensor gets a bucket of its own. Pure: rank 0 decides and the result is recorded
/// in the plan.
std::vector<plan::BucketPlan> cut_buckets(const std::vector<Tensor>& tensors, DType type,
                                          std::int64_t bucket_bytes);

/// The arenas' layout and the buckets' ranges for recorded buckets. Throws Error{Mismatch} if a parameter is
/// missing in `tensors` or one of `tensors` is in no bucket: the recording belongs to another model.
struct Layout {
  tensor::ArenaLayout arena;
  std::vector<int> tensors;    // slot -> index into `tensors`
  std::vector<int> bucket_of;  // slot -> bucket
  std::vector<Bucket> buckets;
};
Layout lay_out(const std::vector<Tensor>& tensors, const std::vector<plan::BucketPlan>& buckets, DType type);

}  // namespace taxon::exchange
