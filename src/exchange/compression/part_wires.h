#pragma once

#include <vector>

#include "exchange/compression/compressed_reduce.h"

namespace taxon::exchange {

/// One wire of a codec's round from each member to each: of the part that the other one owns. Every wire has
/// the room of the longest.
class PartWires {
 public:
  PartWires(const ReduceKernels& kernels, int round);
  /// This member's wire of `member`'s part.
  View mine(int member) const { return wire(mine_, member, sizes_[static_cast<std::size_t>(member)]); }
  /// After swap(): `member`'s wire of this one's part.
  View theirs(int member) const { return member == rank_ ? mine(rank_) : wire(theirs_, member, own()); }
  std::vector<View> all_of_theirs() const;
  task::Task<void> swap(const ReduceKernels& kernels);

 private:
  std::size_t own() const { return sizes_[static_cast<std::size_t>(rank_)]; }
  View wire(const comm::Scratch& wires, int member, std::size_t bytes) const {
    return wires.bytes().slice(static_cast<std::size_t>(member) * each_, bytes);
  }
  const int rank_;
  std::vector<std::size_t> sizes_;  // [member], of wires of its part
  const std::size_t each_;
  comm::Scratch mine_, theirs_;
};

/// One message of each member for all, of at most `each` bytes.
class GatheredWires {
 public:
  GatheredWires(const ReduceKernels& kernels, std::size_t each)
      : each_(each),
        all_(kernels.group().scratch(), static_cast<std::size_t>(kernels.group().size()) * each,
             kernels.reduce().call.data) {}
  View of(int member, std::size_t bytes) const {
    return all_.bytes().slice(static_cast<std::size_t>(member) * each_, bytes);
  }
  task::Task<void> gather(const ReduceKernels& kernels);

 private:
  const std::size_t each_;
  comm::Scratch all_;
};

/// Values of the first member's part, which is the longest.
inline std::size_t longest_part(const codec::Extent& extent, int size) {
  return part({0, extent.count}, static_cast<std::size_t>(size), 0).size;
}
/// Bytes that a member sends to owners in a round, the members' mean; and that a gather of `each` bytes of
/// everybody makes it send.
double sent_to_owners(const codec::Codec& codec, int round, const codec::Extent& extent, int size);
double sent_to_all(std::size_t each, int size);
/// Seconds of these.
double seconds_to_owners(std::size_t each, const AggregationLinks& links);
double seconds_to_all(std::size_t each, const AggregationLinks& links);

}  // namespace taxon::exchange
