#include "train/state/shard_transfer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "train/units.h"

namespace taxon::train {

tensor::Arena ShardTransfer::staging(const tensor::Arena& like) const {
  std::size_t largest = 0;
  for (const exchange::Bucket& bucket : layout_.buckets) largest = std::max(largest, bucket.range.size);
  return tensor::Arena(like.type(), largest, like.bytes());
}

task::Task<void> ShardTransfer::copy(std::string name, ConstView from, View to) {
  tensor::Kernel kernel{std::move(name), {0, 2 * from.size()}, [from, to](tensor::Milestones&) {
                          if (from.size() > 0) std::memcpy(to.data(), from.data(), from.size());
                        }};
  comm::Runtime& runtime = all_.runtime();
  co_await tensor::run(runtime.device, runtime.pending(), tensor::Stream::Exchange, std::move(kernel));
}

/// Every owner's part of the bucket, which begins there in `part`, to the beginning of the staging memory.
task::Task<void> ShardTransfer::bring(const exchange::Bucket* bucket, const tensor::Arena* part,
                                      std::size_t begin, const tensor::Arena* staging) {
  const auto& ring = comm::find_row(net::Operation::AllGather, "ring");
  const std::vector<exchange::LevelAlgorithms> rows(levels_.size(), {nullptr, &ring});
  const Range staged{0, bucket->range.size};
  auto in =
      copy("gather state", part->bytes({begin, bucket->owned.size}), staging->bytes(levels_.owned(staged)));
  co_await in;
  exchange::BucketTransfer transfer{kStateUnit + static_cast<std::uint32_t>(bucket->id.value()), 0, staged,
                                    &rows};
  co_await levels_.spread(transfer, *staging);
}

task::Task<void> ShardTransfer::gather(const tensor::Arena* part, Where where, const tensor::Arena* whole) {
  tensor::Arena staging = this->staging(*part);
  for (const exchange::Bucket& bucket : layout_.buckets) {
    co_await bring(&bucket, part, where(bucket), &staging);
    if (all_.rank() != 0) continue;
    const Range staged{0, bucket.range.size};
    auto out = copy("gather state", staging.bytes(staged), whole->bytes(bucket.range));
    co_await out;
  }
}

task::Task<void> ShardTransfer::scatter(const tensor::Arena* whole, const tensor::Arena* part) {
  tensor::Arena staging = this->staging(*part);
  const auto& tree = comm::find_row(net::Operation::Broadcast, "tree");
  for (const exchange::Bucket& bucket : layout_.buckets) {
    const Range staged{0, bucket.range.size};
    if (all_.rank() == 0) {
      auto in = copy("scatter state", whole->bytes(bucket.range), staging.bytes(staged));
      co_await in;
    }
    if (all_.size() > 1) {
      comm::Call call{staging.bytes(staged), staging.type(), kWeightsUnit};
      co_await tree.run(all_, call);
    }
    auto out = copy("scatter state", staging.bytes(levels_.owned(staged)),
                    part->bytes({bucket.shard, bucket.owned.size}));
    co_await out;
  }
}

task::Task<void> ShardTransfer::show(const tensor::Arena* part, std::vector<std::size_t> slots, See see) {
  tensor::Arena staging = this->staging(*part);
  const exchange::Bucket* staged = nullptr;
  comm::Runtime& runtime = all_.runtime();
  for (std::size_t slot : slots) {
    const Range all = layout_.arena.slots()[slot].range;
    for (const exchange::Bucket& bucket : layout_.buckets) {
      const std::size_t begin = std::max(all.begin, bucket.range.begin);
      const std::size_t end = std::min(all.end(), bucket.range.end());
      if (begin >= end) continue;
      if (std::exchange(staged, &bucket) != &bucket) {
        co_await bring(&bucket, part, packed(bucket), &staging);
      }
      const ConstView values = staging.bytes({begin - bucket.range.begin, end - begin});
      tensor::Kernel kernel{
          "read state", {0, values.size()}, [&see, slot, values](tensor::Milestones&) { see(slot, values); }};
      co_await tensor::run(runtime.device, runtime.pending(), tensor::Stream::Exchange, std::move(kernel));
    }
  }
}

}  // namespace taxon::train
