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
struct Trip {
  comm::Communicator& group;
  const codec::Codec& codec;
  const codec::Feedback& feedback;
  comm::Call call;                       // the range's values, which become the sum; float32
  bool keeps = false;                    // what did not travel is kept in the memory
  View errors{}, velocity{};             // of the range; either may be empty
  View lasting{};                        // of the range, for codecs that last
  View estimate{};                       // of the range, for feedback of kind Difference
  codec::Use use{};                      // keys of chance, pieces and what lasts; scratch is the trip's own
  CodecWork* work = nullptr;             // is added to; null: nobody asks
  std::string_view collective = "auto";  // that sums linear wires
};

/// How often a member encodes and decodes a range's values in one exchange. Mergers count as decoding.
struct CodecShare {
  double encodes = 1, decodes = 1;
};

/// Who exchanges over what.
struct TravelLinks {
  int size = 1;
  comm::LinkCost link;
};

/// How wires of one algebra travel.
struct TravelRow {
  codec::Algebra algebra;
  std::string_view name;
  /// All rounds of the trip. Afterwards the values are the sum of what members sent, with the same bits at
  /// every member.
  task::Task<void> (*run)(Trip trip);
  /// Bytes that a member sends for the values, the members' mean.
  double (*sent)(const codec::Codec& codec, const codec::Extent& extent, int size);
  /// Seconds of its messages, for whoever has to wait longest.
  double (*seconds)(const codec::Codec& codec, const codec::Extent& extent, const TravelLinks& links);
  CodecShare (*share)(int size);
};
/// Codecs' rounds are all of one algebra. exchange/travel.cc.
const TravelRow& travel_of(const codec::Codec& codec);

/// The row for messages of so many bytes: a function of sizes.
const comm::CollectiveRow& row_for(net::Operation collective, int size, std::size_t bytes);

/// linear: each round's wires are summed by an all-reduce.
task::Task<void> travel_linear(Trip trip);
double sent_linear(const codec::Codec& codec, const codec::Extent& extent, int size);
double seconds_linear(const codec::Codec& codec, const codec::Extent& extent, const TravelLinks& links);
/// By a named all-reduce.
double sent_linear_by(const codec::Codec& codec, const codec::Extent& extent, int size,
                      const std::string& collective);
/// opaque: every member gets every wire, and adds them up in the order of members.
task::Task<void> travel_opaque(Trip trip);
double sent_opaque(const codec::Codec& codec, const codec::Extent& extent, int size);
double seconds_opaque(const codec::Codec& codec, const codec::Extent& extent, const TravelLinks& links);
/// divisible: each member gets everybody's wires of its part, and sends the sum's wire to all. What this
/// second encoding loses stays in the memory of whoever did it.
task::Task<void> travel_divisible(Trip trip);
double sent_divisible(const codec::Codec& codec, const codec::Extent& extent, int size);
double seconds_divisible(const codec::Codec& codec, const codec::Extent& extent, const TravelLinks& links);
/// To where members own parts, for codecs whose wires stand alone (one round, not mergeable): each gets
/// everybody's wires of its part; the values of own_part() are the sum, and the others undefined.
task::Task<void> travel_to_owners(Trip trip);
double sent_to_owners(const codec::Codec& codec, const codec::Extent& extent, int size);
/// asked: each member gets everybody's first wires of its part, asks all for what it then wants to know, and
/// goes on as the owner of a divisible wire. exchange/asked.cc.
task::Task<void> travel_asked(Trip trip);
double sent_asked(const codec::Codec& codec, const codec::Extent& extent, int size);
double seconds_asked(const codec::Codec& codec, const codec::Extent& extent, const TravelLinks& links);
/// mergeable: a binomial tree of merges (Shi et al., gTop-k, ICDCS 2019), and a broadcast. Whoever merges
/// keeps what he drops.
task::Task<void> travel_mergeable(Trip trip);
double sent_mergeable(const codec::Codec& codec, const codec::Extent& extent, int size);
double seconds_mergeable(const codec::Codec& codec, const codec::Extent& extent, const TravelLinks& links);

}  // namespace taxon::exchange
