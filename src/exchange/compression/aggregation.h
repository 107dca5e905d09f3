#pragma once

#include "codec/feedback.h"
#include "comm/collectives.h"
#include "tensor/arena.h"

namespace taxon::exchange {

/// What a level's codec did, and what that was worth.
struct CodecWork {
  Duration encode{0}, decode{0};  // of this member; merges and what later rounds need are decoding
  double dense_bytes = 0;         // that gradients as they are would have made a member send, on average
  double sent_bytes = 0;          // that a member sent, on average
};

/// One exchange of one range through a codec. Everything outlives it.
struct CompressedReduce {
  comm::Communicator& group;
  const codec::Codec& codec;
  const codec::Feedback& feedback;
  comm::Call call;                // the range's values, which become the sum; float32
  bool keeps = false;             // what did not travel is kept in the memory
  View errors{}, velocity{};      // of the range; either may be empty
  View lasting{};                 // of the range, for codecs that last
  View estimate{};                // of the range, for feedback of kind Difference
  codec::CodecContext context{};  // keys of chance, pieces and what lasts; scratch is the reduction's own
  CodecWork* work = nullptr;      // is added to; null: nobody asks
  std::string_view collective = "auto";                       // that sums linear wires
  std::span<const comm::CollectiveRow> own_collectives = {};  // beside those of the table
};

/// How often a member encodes and decodes a range's values in one exchange. Mergers count as decoding.
struct CodecShare {
  double encodes = 1, decodes = 1;
};

/// Who exchanges over what.
struct AggregationLinks {
  int size = 1;
  comm::LinkCost link;
};

/// How wires of one algebra travel.
struct AggregationRow {
  codec::Algebra algebra;
  std::string_view name;
  /// All rounds of the codec. Afterwards the values are the sum of what members sent, with the same bits at
  /// every member.
  task::Task<void> (*run)(CompressedReduce reduce);
  /// Bytes that a member sends for the values, the members' mean.
  double (*sent)(const codec::Codec& codec, const codec::Extent& extent, int size);
  /// Seconds of its messages, for whoever has to wait longest.
  double (*seconds)(const codec::Codec& codec, const codec::Extent& extent, const AggregationLinks& links);
  CodecShare (*share)(int size);
};
/// Codecs' rounds are all of one algebra. exchange/compression/aggregation.cc.
const AggregationRow& aggregation_of(const codec::Codec& codec);

/// The row for messages of so many bytes: a function of sizes.
const comm::CollectiveRow& row_for(net::Operation collective, int size, std::size_t bytes);

/// linear: each round's wires are summed by an all-reduce.
task::Task<void> aggregate_linear(CompressedReduce reduce);
double sent_linear(const codec::Codec& codec, const codec::Extent& extent, int size);
double seconds_linear(const codec::Codec& codec, const codec::Extent& extent, const AggregationLinks& links);
/// By a named all-reduce.
double sent_linear_by(const codec::Codec& codec, const codec::Extent& extent, int size,
                      const std::string& collective, std::span<const comm::CollectiveRow> own = {});
/// opaque: every member gets every wire, and adds them up in the order of members.
task::Task<void> aggregate_opaque(CompressedReduce reduce);
double sent_opaque(const codec::Codec& codec, const codec::Extent& extent, int size);
double seconds_opaque(const codec::Codec& codec, const codec::Extent& extent, const AggregationLinks& links);
/// divisible: each member gets everybody's wires of its part, and sends the sum's wire to all. What this
/// second encoding loses stays in the memory of whoever did it.
task::Task<void> aggregate_divisible(CompressedReduce reduce);
double sent_divisible(const codec::Codec& codec, const codec::Extent& extent, int size);
double seconds_divisible(const codec::Codec& codec, const codec::Extent& extent,
                         const AggregationLinks& links);
/// To where members own parts, for codecs whose wires stand alone (one round, not mergeable): each gets
/// everybody's wires of its part; the values of own_part() are the sum, and the others undefined.
task::Task<void> aggregate_at_owners(CompressedReduce reduce);
double sent_to_owners(const codec::Codec& codec, const codec::Extent& extent, int size);
/// asked: each member gets everybody's first wires of its part, asks all for what it then wants to know, and
/// goes on as the owner of a divisible wire. exchange/compression/aggregation_by_query.cc.
task::Task<void> aggregate_by_query(CompressedReduce reduce);
double sent_by_query(const codec::Codec& codec, const codec::Extent& extent, int size);
double seconds_by_query(const codec::Codec& codec, const codec::Extent& extent,
                        const AggregationLinks& links);
/// mergeable: a binomial tree of merges (Shi et al., gTop-k, ICDCS 2019), and a broadcast. Whoever merges
/// keeps what he drops.
task::Task<void> aggregate_mergeable(CompressedReduce reduce);
double sent_mergeable(const codec::Codec& codec, const codec::Extent& extent, int size);
double seconds_mergeable(const codec::Codec& codec, const codec::Extent& extent,
                         const AggregationLinks& links);

}  // namespace taxon::exchange
