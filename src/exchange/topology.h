#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "comm/collectives.h"
#include "exchange/bucket.h"

namespace taxon::exchange {

/// Where contributions of one level meet: two halves, with the update between them at whoever owns the range.
class Topology {
 public:
  virtual ~Topology() = default;
  /// The part of a bucket that this rank owns: it gets the sum there and updates it.
  virtual Range owned(Range bucket) const = 0;
  /// Afterwards owned(bucket.range) of `gradients` holds the sum over the group, with the same bits wherever
  /// it is owned.
  virtual task::Task<void> reduce(const Bucket& bucket, const tensor::Arena& gradients) = 0;
  /// Afterwards every member has the owners' values of the bucket in `values`.
  virtual task::Task<void> spread(const Bucket& bucket, const tensor::Arena& values) = 0;
};

struct TopologyRow {
  std::string_view name;
  std::unique_ptr<Topology> (*make)(comm::Communicator& group);
  net::Operation reduce;  // the collective whose row a bucket's plan names
};
/// all_reduce: everybody owns everything. exchange/topology.cc.
std::span<const TopologyRow> topology_table();
const TopologyRow& find_topology(std::string_view name);

}  // namespace taxon::exchange
