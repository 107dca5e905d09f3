#include "exchange/compression/aggregation.h"

#include <cmath>
#include <optional>

#include "exchange/compression/compressed_reduce.h"
#include "exchange/compression/part_wires.h"
#include "exchange/levels/algorithm_selection.h"

namespace taxon::exchange {
namespace {

/// Of a binomial tree.
double depth_of(int size) { return std::ceil(std::log2(static_cast<double>(size))); }

double message_seconds(std::size_t bytes, const comm::LinkCost& link) {
  return link.latency + static_cast<double>(bytes) / link.bandwidth;
}

}  // namespace

const AggregationRow& aggregation_of(const codec::Codec& codec) {
  static constexpr AggregationRow kRows[] = {
      {codec::Algebra::Linear, "all_reduce", aggregate_linear, sent_linear, seconds_linear,
       [](int) {
         return CodecShare{1, 1};
       }},
      {codec::Algebra::Divisible, "owners", aggregate_divisible, sent_divisible, seconds_divisible,
       [](int size) {
         return CodecShare{1 + 1.0 / size, 2};
       }},
      {codec::Algebra::Mergeable, "merge_tree", aggregate_mergeable, sent_mergeable, seconds_mergeable,
       [](int size) {
         return CodecShare{1, 1 + depth_of(size)};
       }},
      {codec::Algebra::Opaque, "gather", aggregate_opaque, sent_opaque, seconds_opaque,
       [](int size) {
         return CodecShare{1, static_cast<double>(size)};
       }},
      {codec::Algebra::Asked, "asking_owners", aggregate_by_query, sent_by_query, seconds_by_query,
       [](int size) {
         return CodecShare{1, 1.0 / size};
       }},
  };
  for (const AggregationRow& row : kRows)
    if (row.algebra == codec.rounds().front().algebra) return row;
  TAXON_CHECK(false, "an algebra that nothing carries");
}

const comm::CollectiveRow& row_for(net::Operation collective, int size, std::size_t bytes) {
  return choose(collective, "auto", {size, bytes, false});
}

namespace {

const comm::CollectiveRow& summing_row(std::string_view collective, int size, std::size_t bytes,
                                       std::span<const comm::CollectiveRow> own) {
  return choose(net::Operation::AllReduce, std::string(collective), {size, bytes, false}, own);
}

}  // namespace

task::Task<void> aggregate_linear(CompressedReduce reduce) {
  ReduceKernels kernels(reduce);
  const std::size_t rounds = reduce.codec.rounds().size();
  std::optional<comm::Scratch> wires[2];
  TAXON_CHECK(rounds <= std::size(wires), rounds, " rounds");
  for (std::size_t r = 0; r < rounds; ++r) {
    const std::size_t bytes = reduce.codec.wire_bytes(static_cast<int>(r), kernels.extent());
    wires[r].emplace(reduce.group.scratch(), bytes, reduce.call.data);
    const View wire = wires[r]->bytes();
    auto encoding = r == 0 ? kernels.encode(kernels.all(), wire, 0)
                           : kernels.encode_next(static_cast<int>(r), wires[r - 1]->bytes(), wire);
    co_await encoding;
    comm::Call call{wire, reduce.codec.rounds()[r].type, reduce.call.unit, reduce.call.lane};
    co_await summing_row(reduce.collective, reduce.group.size(), bytes, reduce.own_collectives)
        .run(reduce.group, call);
  }
  co_await kernels.decode(wires[rounds - 1]->bytes(), kernels.all(), codec::Into::Assign);
  co_await kernels.deliver(wires[rounds - 1]->bytes());
}

double sent_linear_by(const codec::Codec& codec, const codec::Extent& extent, int size,
                      const std::string& collective, std::span<const comm::CollectiveRow> own) {
  double sent = 0;
  for (std::size_t r = 0; r < codec.rounds().size(); ++r) {
    const std::size_t bytes = codec.wire_bytes(static_cast<int>(r), extent);
    sent += summing_row(collective, size, bytes, own).sent({size, bytes, false});
  }
  return sent;
}

double sent_linear(const codec::Codec& codec, const codec::Extent& extent, int size) {
  return sent_linear_by(codec, extent, size, "auto");
}

double seconds_linear(const codec::Codec& codec, const codec::Extent& extent, const AggregationLinks& links) {
  double seconds = 0;
  for (std::size_t r = 0; r < codec.rounds().size(); ++r) {
    const std::size_t bytes = codec.wire_bytes(static_cast<int>(r), extent);
    seconds += row_for(net::Operation::AllReduce, links.size, bytes)
                   .estimate({links.size, bytes, false}, links.link);
  }
  return seconds;
}

task::Task<void> aggregate_opaque(CompressedReduce reduce) {
  ReduceKernels kernels(reduce);
  const std::size_t each = reduce.codec.wire_bytes(0, kernels.count());
  const auto size = static_cast<std::size_t>(reduce.group.size());
  comm::Scratch wires(reduce.group.scratch(), size * each, reduce.call.data);
  auto wire_of = [&wires, each](std::size_t member) { return wires.bytes().slice(member * each, each); };
  co_await kernels.encode(kernels.all(), wire_of(static_cast<std::size_t>(reduce.group.rank())), 0);
  comm::Call call{wires.bytes(), DType::UInt8, reduce.call.unit, reduce.call.lane};
  co_await row_for(net::Operation::AllGather, reduce.group.size(), size * each).run(reduce.group, call);
  for (std::size_t member = 0; member < size; ++member) {
    auto decoding =
        kernels.decode(wire_of(member), kernels.all(), member == 0 ? codec::Into::Assign : codec::Into::Add,
                       static_cast<int>(member));
    co_await decoding;
  }
}

double sent_opaque(const codec::Codec& codec, const codec::Extent& extent, int size) {
  const std::size_t bytes = codec.wire_bytes(0, extent) * static_cast<std::size_t>(size);
  return row_for(net::Operation::AllGather, size, bytes).sent({size, bytes, false});
}

double seconds_opaque(const codec::Codec& codec, const codec::Extent& extent, const AggregationLinks& links) {
  const std::size_t bytes = codec.wire_bytes(0, extent) * static_cast<std::size_t>(links.size);
  return row_for(net::Operation::AllGather, links.size, bytes)
      .estimate({links.size, bytes, false}, links.link);
}

namespace {

/// Everybody's wires of a part to its owner, who adds them up in the order of members.
task::Task<void> sum_at_owners(ReduceKernels* kernels) {
  PartWires parts(*kernels, 0);
  const int size = kernels->group().size();
  for (int member = 0; member < size; ++member) {
    co_await kernels->encode(kernels->part_of(member), parts.mine(member),
                             static_cast<std::uint64_t>(member) + 1);
  }
  co_await parts.swap(*kernels);
  for (int member = 0; member < size; ++member) {
    auto decoding = kernels->decode(parts.theirs(member), kernels->own_part(),
                                    member == 0 ? codec::Into::Assign : codec::Into::Add, member);
    co_await decoding;
  }
}

}  // namespace

task::Task<void> aggregate_at_owners(CompressedReduce reduce) {
  ReduceKernels kernels(reduce);
  co_await sum_at_owners(&kernels);
}

double sent_to_owners(const codec::Codec& codec, const codec::Extent& extent, int size) {
  return sent_to_owners(codec, 0, extent, size);
}

task::Task<void> aggregate_divisible(CompressedReduce reduce) {
  ReduceKernels kernels(reduce);
  co_await sum_at_owners(&kernels);
  GatheredWires sums(kernels, reduce.codec.wire_bytes(0, kernels.part_of(0).size));
  co_await kernels.encode_sum(
      kernels.own_part(), sums.of(reduce.group.rank(), reduce.codec.wire_bytes(0, kernels.own_part().size)),
      0);
  co_await sums.gather(kernels);
  for (int member = 0; member < reduce.group.size(); ++member) {
    const Range range = kernels.part_of(member);
    co_await kernels.decode(sums.of(member, reduce.codec.wire_bytes(0, range.size)), range,
                            codec::Into::Assign, member);
  }
}

double sent_divisible(const codec::Codec& codec, const codec::Extent& extent, int size) {
  return sent_to_owners(codec, 0, extent, size) +
         sent_to_all(codec.wire_bytes(0, longest_part(extent, size)), size);
}

double seconds_divisible(const codec::Codec& codec, const codec::Extent& extent,
                         const AggregationLinks& links) {
  const std::size_t each = codec.wire_bytes(0, longest_part(extent, links.size));
  return seconds_to_owners(each, links) + seconds_to_all(each, links);
}

task::Task<void> aggregate_mergeable(CompressedReduce reduce) {
  ReduceKernels kernels(reduce);
  const int size = reduce.group.size(), rank = reduce.group.rank();
  const std::size_t bytes = reduce.codec.wire_bytes(0, kernels.count());
  comm::Scratch wire(reduce.group.scratch(), bytes, reduce.call.data);
  comm::Scratch other(reduce.group.scratch(), bytes, reduce.call.data);
  co_await kernels.encode(kernels.all(), wire.bytes(), 0);
  net::Tag tag = reduce.group.begin(net::Operation::Reduce, reduce.call.unit, reduce.call.lane);
  net::Transport& transport = reduce.group.runtime().transport;
  for (int step = 1; step < size; step *= 2, ++tag.round) {
    if (rank % (2 * step) == step) {
      net::SendOp send(transport, reduce.group.global(rank - step), tag, wire.bytes(), DType::UInt8);
      co_await send;
      break;
    }
    if (rank + step >= size) continue;
    net::RecvOp receive(transport, reduce.group.global(rank + step), tag, other.bytes(), DType::UInt8);
    co_await receive;
    co_await kernels.merge(wire.bytes(), other.bytes(), rank + step);
  }
  comm::Call call{wire.bytes(), DType::UInt8, reduce.call.unit, reduce.call.lane};
  co_await row_for(net::Operation::Broadcast, size, bytes).run(reduce.group, call);
  co_await kernels.decode(wire.bytes(), kernels.all(), codec::Into::Assign, 0);
}

double sent_mergeable(const codec::Codec& codec, const codec::Extent& extent, int size) {
  const std::size_t bytes = codec.wire_bytes(0, extent);
  return static_cast<double>(bytes) * (size - 1) / size +
         row_for(net::Operation::Broadcast, size, bytes).sent({size, bytes, false});
}

double seconds_mergeable(const codec::Codec& codec, const codec::Extent& extent,
                         const AggregationLinks& links) {
  const std::size_t bytes = codec.wire_bytes(0, extent);
  return depth_of(links.size) * message_seconds(bytes, links.link) +
         row_for(net::Operation::Broadcast, links.size, bytes)
             .estimate({links.size, bytes, false}, links.link);
}

}  // namespace taxon::exchange
