#pragma once

#include <cstdint>
#include <string>

namespace taxon::net {

/// What a message belongs to.
enum class Operation : std::uint16_t {
  User,
  Barrier,
  Broadcast,
  Reduce,
  ReduceScatter,
  AllGather,
  AllReduce,
  ShareRegions,
  Serve,   // between a worker and a server
  Tensor,  // between the ends of a tensor channel
  AllToAll
};

/// Units from here on have names of Taxon's own in any operation; users' messages take smaller ones.
inline constexpr std::uint32_t kFirstReservedUnit = 0x40000000;

/// What a message is about. Two messages match when all fields are equal and the source is the expected one,
/// so tags do not depend on the order in which communicators are made. Part of the wire header
/// (docs/wire_format.md).
struct Tag {
  std::uint32_t group = 0;  // communicator, derived from its mesh axis and members
  Operation operation = Operation::User;
  std::uint16_t lane = 0;      // concurrent uses of one (group, operation), for example a slice of a bucket
  std::uint32_t unit = 0;      // bucket or other unit of exchange
  std::uint32_t sequence = 0;  // counts the uses of (group, operation, lane, unit); a step for buckets
  std::uint32_t round = 0;     // step of the algorithm inside one use
  friend bool operator==(const Tag&, const Tag&) = default;
};

}  // namespace taxon::net
