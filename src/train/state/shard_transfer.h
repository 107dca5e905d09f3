#pragma once

#include <functional>
#include <string>
#include <vector>

#include "exchange/layout/bucket.h"
#include "exchange/levels/levels.h"

namespace taxon::train {

/// Carries what is spread over owners to rank 0 and back, bucket by bucket, so that no rank but the first
/// ever holds it all: for checkpoints of optimiser state, and of weights in parts. Everything outlives it.
/// Its calls are collective and need settled exchanges.
class ShardTransfer {
 public:
  ShardTransfer(comm::Communicator& all, exchange::Levels& levels, const exchange::Layout& layout)
      : all_(all), levels_(levels), layout_(layout) {}

  /// False: every rank's arenas are whole, and there is nothing to carry.
  bool exist() const { return levels_.spreads(); }
  /// Where in an arena a bucket's owned elements begin.
  using Where = std::size_t (*)(const exchange::Bucket&);
  static std::size_t packed(const exchange::Bucket& bucket) { return bucket.shard; }
  static std::size_t in_place(const exchange::Bucket& bucket) { return bucket.owned.begin; }

  /// Rank 0's `whole`, of the weights' layout, := every owner's part. Elsewhere `whole` is not touched.
  task::Task<void> gather(const tensor::Arena* part, Where where, const tensor::Arena* whole);
  /// Every owner's packed part := its elements of rank 0's `whole`.
  task::Task<void> scatter(const tensor::Arena* whole, const tensor::Arena* part);
  /// Shows every rank all values of a packed `part`, slot by slot in this order, each in one run or several.
  /// `see` is called from kernels.
  using See = std::function<void(std::size_t slot, ConstView values)>;
  task::Task<void> show(const tensor::Arena* part, std::vector<std::size_t> slots, See see);

 private:
  task::Task<void> copy(std::string name, ConstView from, View to);
  task::Task<void> bring(const exchange::Bucket* bucket, const tensor::Arena* part, std::size_t begin,
                         const tensor::Arena* staging);
  tensor::Arena staging(const tensor::Arena& like) const;

  comm::Communicator& all_;
  exchange::Levels& levels_;
  const exchange::Layout& layout_;
};

}  // namespace taxon::train
