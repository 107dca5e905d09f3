#include "exchange/travel.h"

#include <cmath>
#include <deque>
#include <optional>

#include "exchange/choose.h"
#include "exchange/trip.h"

namespace taxon::exchange {
namespace {

/// Of a binomial tree.
double depth_of(int size) { return std::ceil(std::log2(static_cast<double>(size))); }

double message_seconds(std::size_t bytes, const comm::LinkCost& link) {
  return link.latency + static_cast<double>(bytes) / link.bandwidth;
}

}  // namespace

const TravelRow& travel_of(const codec::Codec& codec) {
  static constexpr TravelRow kRows[] = {
      {codec::Algebra::Linear, "all_reduce", travel_linear, sent_linear, seconds_linear,
       [](int) {
         return CodecShare{1, 1};
       }},
      {codec::Algebra::Divisible, "owners", travel_divisible, sent_divisible, seconds_divisible,
       [](int size) {
         return CodecShare{1 + 1.0 / size, 2};
       }},
      {codec::Algebra::Mergeable, "merge_tree", travel_mergeable, sent_mergeable, seconds_mergeable,
       [](int size) {
         return CodecShare{1, 1 + depth_of(size)};
       }},
      {codec::Algebra::Opaque, "gather", travel_opaque, sent_opaque, seconds_opaque,
       [](int size) {
         return CodecShare{1, static_cast<double>(size)};
       }},
  };
  for (const TravelRow& row : kRows)
    if (row.algebra == codec.rounds().front().algebra) return row;
  TAXON_CHECK(false, "an algebra that nothing carries");
}

const comm::CollectiveRow& row_for(net::Operation collective, int size, std::size_t bytes) {
  return choose(collective, "auto", {size, bytes, false});
}

namespace {

const comm::CollectiveRow& summing_row(std::string_view collective, int size, std::size_t bytes) {
  return choose(net::Operation::AllReduce, std::string(collective), {size, bytes, false});
}

}  // namespace

task::Task<void> travel_linear(Trip trip) {
  TripDesk desk(trip);
  const std::size_t rounds = trip.codec.rounds().size();
  std::optional<comm::Scratch> wires[2];
  TAXON_CHECK(rounds <= std::size(wires), rounds, " rounds");
  for (std::size_t r = 0; r < rounds; ++r) {
    const std::size_t bytes = trip.codec.wire_bytes(static_cast<int>(r), desk.extent());
    wires[r].emplace(trip.group.scratch(), bytes, trip.call.data);
    const View wire = wires[r]->bytes();
    auto encoding = r == 0 ? desk.encode(desk.all(), wire, 0)
                           : desk.encode_next(static_cast<int>(r), wires[r - 1]->bytes(), wire);
    co_await encoding;
    comm::Call call{wire, trip.codec.rounds()[r].type, trip.call.unit, trip.call.lane};
    auto sum = summing_row(trip.collective, trip.group.size(), bytes).run(trip.group, call);
    co_await sum;
  }
  auto decoding = desk.decode(wires[rounds - 1]->bytes(), desk.all(), codec::Into::Assign);
  co_await decoding;
  auto delivering = desk.deliver(wires[rounds - 1]->bytes());
  co_await delivering;
}

double sent_linear_by(const codec::Codec& codec, const codec::Extent& extent, int size,
                      const std::string& collective) {
  double sent = 0;
  for (std::size_t r = 0; r < codec.rounds().size(); ++r) {
    const std::size_t bytes = codec.wire_bytes(static_cast<int>(r), extent);
    sent += summing_row(collective, size, bytes).sent({size, bytes, false});
  }
  return sent;
}

double sent_linear(const codec::Codec& codec, const codec::Extent& extent, int size) {
  return sent_linear_by(codec, extent, size, "auto");
}

double seconds_linear(const codec::Codec& codec, const codec::Extent& extent, const TravelLinks& links) {
  double seconds = 0;
  for (std::size_t r = 0; r < codec.rounds().size(); ++r) {
    const std::size_t bytes = codec.wire_bytes(static_cast<int>(r), extent);
    seconds += row_for(net::Operation::AllReduce, links.size, bytes)
                   .estimate({links.size, bytes, false}, links.link);
  }
  return seconds;
}

task::Task<void> travel_opaque(Trip trip) {
  TripDesk desk(trip);
  const std::size_t each = trip.codec.wire_bytes(0, desk.count());
  const auto size = static_cast<std::size_t>(trip.group.size());
  comm::Scratch wires(trip.group.scratch(), size * each, trip.call.data);
  auto wire_of = [&wires, each](std::size_t member) { return wires.bytes().slice(member * each, each); };
  auto encoding = desk.encode(desk.all(), wire_of(static_cast<std::size_t>(trip.group.rank())), 0);
  co_await encoding;
  comm::Call call{wires.bytes(), DType::UInt8, trip.call.unit, trip.call.lane};
  auto gather = row_for(net::Operation::AllGather, trip.group.size(), size * each).run(trip.group, call);
  co_await gather;
  for (std::size_t member = 0; member < size; ++member) {
    auto decoding =
        desk.decode(wire_of(member), desk.all(), member == 0 ? codec::Into::Assign : codec::Into::Add);
    co_await decoding;
  }
}

double sent_opaque(const codec::Codec& codec, const codec::Extent& extent, int size) {
  const std::size_t bytes = codec.wire_bytes(0, extent) * static_cast<std::size_t>(size);
  return row_for(net::Operation::AllGather, size, bytes).sent({size, bytes, false});
}

double seconds_opaque(const codec::Codec& codec, const codec::Extent& extent, const TravelLinks& links) {
  const std::size_t bytes = codec.wire_bytes(0, extent) * static_cast<std::size_t>(links.size);
  return row_for(net::Operation::AllGather, links.size, bytes)
      .estimate({links.size, bytes, false}, links.link);
}

namespace {

/// One wire from each member to each: the part of the one who gets it.
class Parts {
 public:
  Parts(comm::Communicator& group, net::Tag tag) : group_(group), tag_(tag) {}
  void receive(int member, View place) {
    receives_.emplace_back(group_.runtime().transport, group_.global(member), tag_, place, DType::UInt8);
  }
  void send(int member, ConstView wire) {
    sends_.emplace_back(group_.runtime().transport, group_.global(member), tag_, wire, DType::UInt8);
  }
  task::Task<void> all() {
    for (net::RecvOp& receive : receives_) co_await receive;
    for (net::SendOp& send : sends_) co_await send;
  }

 private:
  comm::Communicator& group_;
  net::Tag tag_;
  std::deque<net::RecvOp> receives_;
  std::deque<net::SendOp> sends_;
};

}  // namespace

namespace {

/// The member's wire among equally long ones.
View wire_at(const comm::Scratch& wires, std::size_t each, int member, std::size_t bytes) {
  return wires.bytes().slice(static_cast<std::size_t>(member) * each, bytes);
}

/// Every part's wire has the room of the longest, so that parts of all members are equally long.
std::size_t longest_wire(const TripDesk& desk) {
  return desk.trip().codec.wire_bytes(0, desk.part_of(0).size);
}

/// Everybody's wires of a part to its owner, who adds them up in the order of members.
task::Task<void> sum_at_owners(TripDesk* desk) {
  const Trip& trip = desk->trip();
  const int size = trip.group.size(), rank = trip.group.rank();
  const std::size_t each = longest_wire(*desk);
  const std::size_t own = trip.codec.wire_bytes(0, desk->own_part().size);
  comm::Scratch mine(trip.group.scratch(), static_cast<std::size_t>(size) * each, trip.call.data);
  comm::Scratch theirs(trip.group.scratch(), static_cast<std::size_t>(size) * each, trip.call.data);
  for (int member = 0; member < size; ++member) {
    const Range range = desk->part_of(member);
    const View wire = wire_at(mine, each, member, trip.codec.wire_bytes(0, range.size));
    auto encoding = desk->encode(range, wire, static_cast<std::uint64_t>(member) + 1);
    co_await encoding;
  }
  Parts parts(trip.group, trip.group.begin(net::Operation::ReduceScatter, trip.call.unit, trip.call.lane));
  for (int shift = 1; shift < size; ++shift) {
    const int from = (rank + size - shift) % size, to = (rank + shift) % size;
    parts.receive(from, wire_at(theirs, each, from, own));
    parts.send(to, wire_at(mine, each, to, trip.codec.wire_bytes(0, desk->part_of(to).size)));
  }
  auto messages = parts.all();
  auto all = comm::settle(trip.group.runtime().waits(), std::move(messages));
  co_await all;
  for (int member = 0; member < size; ++member) {
    const View wire = wire_at(member == rank ? mine : theirs, each, member, own);
    auto decoding =
        desk->decode(wire, desk->own_part(), member == 0 ? codec::Into::Assign : codec::Into::Add);
    co_await decoding;
  }
}

}  // namespace

task::Task<void> travel_to_owners(Trip trip) {
  TripDesk desk(trip);
  auto summing = sum_at_owners(&desk);
  co_await summing;
}

double sent_to_owners(const codec::Codec& codec, const codec::Extent& extent, int size) {
  const auto members = static_cast<std::size_t>(size);
  double parts = 0;
  for (std::size_t m = 0; m < members; ++m)
    parts += static_cast<double>(codec.wire_bytes(0, part({0, extent.count}, members, m).size));
  return parts * (size - 1) / size;
}

task::Task<void> travel_divisible(Trip trip) {
  TripDesk desk(trip);
  auto summing = sum_at_owners(&desk);
  co_await summing;
  const int size = trip.group.size(), rank = trip.group.rank();
  const std::size_t each = longest_wire(desk);
  comm::Scratch sums(trip.group.scratch(), static_cast<std::size_t>(size) * each, trip.call.data);
  const std::size_t own = trip.codec.wire_bytes(0, desk.own_part().size);
  auto encoding = desk.encode_sum(desk.own_part(), wire_at(sums, each, rank, own), 0);
  co_await encoding;
  comm::Call call{sums.bytes(), DType::UInt8, trip.call.unit, trip.call.lane};
  auto gather = row_for(net::Operation::AllGather, size, sums.bytes().size()).run(trip.group, call);
  co_await gather;
  for (int member = 0; member < size; ++member) {
    const Range range = desk.part_of(member);
    const View wire = wire_at(sums, each, member, trip.codec.wire_bytes(0, range.size));
    auto decoding = desk.decode(wire, range, codec::Into::Assign);
    co_await decoding;
  }
}

double sent_divisible(const codec::Codec& codec, const codec::Extent& extent, int size) {
  const auto members = static_cast<std::size_t>(size);
  const std::size_t each = codec.wire_bytes(0, part({0, extent.count}, members, 0).size);
  return sent_to_owners(codec, extent, size) +
         row_for(net::Operation::AllGather, size, members * each).sent({size, members * each, false});
}

double seconds_divisible(const codec::Codec& codec, const codec::Extent& extent, const TravelLinks& links) {
  const auto members = static_cast<std::size_t>(links.size);
  const std::size_t each = codec.wire_bytes(0, part({0, extent.count}, members, 0).size);
  return (links.size - 1) * message_seconds(each, links.link) +
         row_for(net::Operation::AllGather, links.size, members * each)
             .estimate({links.size, members * each, false}, links.link);
}

task::Task<void> travel_mergeable(Trip trip) {
  TripDesk desk(trip);
  const int size = trip.group.size(), rank = trip.group.rank();
  const std::size_t bytes = trip.codec.wire_bytes(0, desk.count());
  comm::Scratch wire(trip.group.scratch(), bytes, trip.call.data);
  comm::Scratch other(trip.group.scratch(), bytes, trip.call.data);
  auto encoding = desk.encode(desk.all(), wire.bytes(), 0);
  co_await encoding;
  net::Tag tag = trip.group.begin(net::Operation::Reduce, trip.call.unit, trip.call.lane);
  net::Transport& transport = trip.group.runtime().transport;
  for (int step = 1; step < size; step *= 2, ++tag.round) {
    if (rank % (2 * step) == step) {
      net::SendOp send(transport, trip.group.global(rank - step), tag, wire.bytes(), DType::UInt8);
      co_await send;
      break;
    }
    if (rank + step >= size) continue;
    net::RecvOp receive(transport, trip.group.global(rank + step), tag, other.bytes(), DType::UInt8);
    co_await receive;
    auto merging = desk.merge(wire.bytes(), other.bytes());
    co_await merging;
  }
  comm::Call call{wire.bytes(), DType::UInt8, trip.call.unit, trip.call.lane};
  auto spread = row_for(net::Operation::Broadcast, size, bytes).run(trip.group, call);
  co_await spread;
  auto decoding = desk.decode(wire.bytes(), desk.all(), codec::Into::Assign);
  co_await decoding;
}

double sent_mergeable(const codec::Codec& codec, const codec::Extent& extent, int size) {
  const std::size_t bytes = codec.wire_bytes(0, extent);
  return static_cast<double>(bytes) * (size - 1) / size +
         row_for(net::Operation::Broadcast, size, bytes).sent({size, bytes, false});
}

double seconds_mergeable(const codec::Codec& codec, const codec::Extent& extent, const TravelLinks& links) {
  const std::size_t bytes = codec.wire_bytes(0, extent);
  return depth_of(links.size) * message_seconds(bytes, links.link) +
         row_for(net::Operation::Broadcast, links.size, bytes)
             .estimate({links.size, bytes, false}, links.link);
}

}  // namespace taxon::exchange
