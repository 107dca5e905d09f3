#include "exchange/travel.h"

#include <cmath>
#include <optional>

#include "exchange/choose.h"
#include "exchange/part_wires.h"
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
      {codec::Algebra::Asked, "asking_owners", travel_asked, sent_asked, seconds_asked,
       [](int size) {
         return CodecShare{1, 1.0 / size};
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
        desk.decode(wire_of(member), desk.all(), member == 0 ? codec::Into::Assign : codec::Into::Add,
                    static_cast<int>(member));
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

/// Everybody's wires of a part to its owner, who adds them up in the order of members.
task::Task<void> sum_at_owners(TripDesk* desk) {
  PartWires parts(*desk, 0);
  const int size = desk->group().size();
  for (int member = 0; member < size; ++member) {
    auto encoding =
        desk->encode(desk->part_of(member), parts.mine(member), static_cast<std::uint64_t>(member) + 1);
    co_await encoding;
  }
  auto swapping = parts.swap(*desk);
  co_await swapping;
  for (int member = 0; member < size; ++member) {
    auto decoding = desk->decode(parts.theirs(member), desk->own_part(),
                                 member == 0 ? codec::Into::Assign : codec::Into::Add, member);
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
  return sent_to_owners(codec, 0, extent, size);
}

task::Task<void> travel_divisible(Trip trip) {
  TripDesk desk(trip);
  auto summing = sum_at_owners(&desk);
  co_await summing;
  GatheredWires sums(desk, trip.codec.wire_bytes(0, desk.part_of(0).size));
  auto encoding = desk.encode_sum(
      desk.own_part(), sums.of(trip.group.rank(), trip.codec.wire_bytes(0, desk.own_part().size)), 0);
  co_await encoding;
  auto gathering = sums.gather(desk);
  co_await gathering;
  for (int member = 0; member < trip.group.size(); ++member) {
    const Range range = desk.part_of(member);
    auto decoding = desk.decode(sums.of(member, trip.codec.wire_bytes(0, range.size)), range,
                                codec::Into::Assign, member);
    co_await decoding;
  }
}

double sent_divisible(const codec::Codec& codec, const codec::Extent& extent, int size) {
  return sent_to_owners(codec, 0, extent, size) +
         sent_to_all(codec.wire_bytes(0, longest_part(extent, size)), size);
}

double seconds_divisible(const codec::Codec& codec, const codec::Extent& extent, const TravelLinks& links) {
  const std::size_t each = codec.wire_bytes(0, longest_part(extent, links.size));
  return seconds_to_owners(each, links) + seconds_to_all(each, links);
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
    auto merging = desk.merge(wire.bytes(), other.bytes(), rank + step);
    co_await merging;
  }
  comm::Call call{wire.bytes(), DType::UInt8, trip.call.unit, trip.call.lane};
  auto spread = row_for(net::Operation::Broadcast, size, bytes).run(trip.group, call);
  co_await spread;
  auto decoding = desk.decode(wire.bytes(), desk.all(), codec::Into::Assign, 0);
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
