#pragma once

#include "codec/feedback.h"
#include "comm/collectives.h"
#include "tensor/arena.h"

namespace taxon::exchange {

/// One exchange of one range through a codec. Everything outlives it.
struct Trip {
  comm::Communicator& group;
  const codec::Codec& codec;
  const codec::Feedback& feedback;
  comm::Call call;            // the range's values, which become the sum; float32
  bool keeps = false;         // what did not travel is kept in the memory
  View errors{}, velocity{};  // of the range; either may be empty
  View lasting{};             // of the range, for codecs that last
  codec::Use use{};           // keys of chance, pieces and what lasts; scratch is the trip's own
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
};
/// Codecs' rounds are all of one algebra. exchange/travel.cc.
const TravelRow& travel_of(const codec::Codec& codec);

/// The row for messages of so many bytes: a function of sizes.
const comm::CollectiveRow& row_for(net::Operation collective, int size, std::size_t bytes);

/// linear: each round's wires are summed by an all-reduce.
task::Task<void> travel_linear(Trip trip);
double sent_linear(const codec::Codec& codec, const codec::Extent& extent, int size);
/// opaque: every member gets every wire, and adds them up in the order of members.
task::Task<void> travel_opaque(Trip trip);
double sent_opaque(const codec::Codec& codec, const codec::Extent& extent, int size);
/// divisible: each member gets everybody's wires of its part, and sends the sum's wire to all. What this
/// second encoding loses stays in the memory of whoever did it.
task::Task<void> travel_divisible(Trip trip);
double sent_divisible(const codec::Codec& codec, const codec::Extent& extent, int size);
/// mergeable: a binomial tree of merges (Shi et al., gTop-k, ICDCS 2019), and a broadcast. Whoever merges
/// keeps what he drops.
task::Task<void> travel_mergeable(Trip trip);
double sent_mergeable(const codec::Codec& codec, const codec::Extent& extent, int size);

}  // namespace taxon::exchange
