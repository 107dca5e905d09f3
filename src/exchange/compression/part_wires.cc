#include "exchange/compression/part_wires.h"

#include <algorithm>
#include <deque>

namespace taxon::exchange {
namespace {

std::vector<std::size_t> sizes_of(const ReduceKernels& kernels, int round) {
  std::vector<std::size_t> sizes;
  for (int member = 0; member < kernels.group().size(); ++member)
    sizes.push_back(kernels.reduce().codec.wire_bytes(round, kernels.part_of(member).size));
  return sizes;
}

task::Task<void> all_of(std::deque<net::RecvOp>* receives, std::deque<net::SendOp>* sends) {
  for (net::RecvOp& receive : *receives) co_await receive;
  for (net::SendOp& send : *sends) co_await send;
}

}  // namespace

PartWires::PartWires(const ReduceKernels& kernels, int round)
    : rank_(kernels.group().rank()),
      sizes_(sizes_of(kernels, round)),
      each_(*std::max_element(sizes_.begin(), sizes_.end())),
      mine_(kernels.group().scratch(), sizes_.size() * each_, kernels.reduce().call.data),
      theirs_(kernels.group().scratch(), sizes_.size() * each_, kernels.reduce().call.data) {}

std::vector<View> PartWires::all_of_theirs() const {
  std::vector<View> all;
  for (std::size_t member = 0; member < sizes_.size(); ++member)
    all.push_back(theirs(static_cast<int>(member)));
  return all;
}

task::Task<void> PartWires::swap(const ReduceKernels& kernels) {
  comm::Communicator& group = kernels.group();
  const comm::Call& call = kernels.reduce().call;
  const net::Tag tag = group.begin(net::Operation::ReduceScatter, call.unit, call.lane);
  net::Transport& transport = group.runtime().transport;
  std::deque<net::RecvOp> receives;
  std::deque<net::SendOp> sends;
  const int size = group.size();
  for (int shift = 1; shift < size; ++shift) {
    const int from = (rank_ + size - shift) % size, to = (rank_ + shift) % size;
    receives.emplace_back(transport, group.global(from), tag, theirs(from), DType::UInt8);
    sends.emplace_back(transport, group.global(to), tag, mine(to), DType::UInt8);
  }
  auto messages = all_of(&receives, &sends);
  co_await comm::settle(group.runtime().pending(), std::move(messages));
}

task::Task<void> GatheredWires::gather(const ReduceKernels& kernels) {
  const comm::Call call{all_.bytes(), DType::UInt8, kernels.reduce().call.unit, kernels.reduce().call.lane};
  co_await row_for(net::Operation::AllGather, kernels.group().size(), call.data.size())
      .run(kernels.group(), call);
}

double sent_to_owners(const codec::Codec& codec, int round, const codec::Extent& extent, int size) {
  const auto members = static_cast<std::size_t>(size);
  double parts = 0;
  for (std::size_t m = 0; m < members; ++m)
    parts += static_cast<double>(codec.wire_bytes(round, part({0, extent.count}, members, m).size));
  return parts * (size - 1) / size;
}

double sent_to_all(std::size_t each, int size) {
  const std::size_t bytes = static_cast<std::size_t>(size) * each;
  return row_for(net::Operation::AllGather, size, bytes).sent({size, bytes, false});
}

double seconds_to_owners(std::size_t each, const AggregationLinks& links) {
  return (links.size - 1) * (links.link.latency + static_cast<double>(each) / links.link.bandwidth);
}

double seconds_to_all(std::size_t each, const AggregationLinks& links) {
  const std::size_t bytes = static_cast<std::size_t>(links.size) * each;
  return row_for(net::Operation::AllGather, links.size, bytes)
      .estimate({links.size, bytes, false}, links.link);
}

}  // namespace taxon::exchange
