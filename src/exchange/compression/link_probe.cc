#include "exchange/compression/link_probe.h"

#include <algorithm>

#include "comm/in_flight.h"
#include "comm/kernels.h"
#include "exchange/compression/coded.h"
#include "exchange/compression/compressed_reduce.h"

namespace taxon::exchange {
namespace {

constexpr std::size_t kSmall = 8, kLarge = 1 << 20;  // bytes of a message
// The first rounds open channels and empty token buckets.
constexpr int kSmallRounds = 8, kLargeRounds = 3, kWarmUp = 2;
constexpr int kRepeats = 2;  // of a codec: the first touches fresh memory

task::Task<void> both_of(net::RecvOp* receive, net::SendOp* send) {
  co_await *receive;
  co_await *send;
}

/// Everybody sends to the next member and gets from the one before, `rounds` times; seconds of one.
task::Task<double> shift(comm::Communicator* group, const tensor::Arena* out, const tensor::Arena* in,
                         int rounds) {
  net::Transport& transport = group->runtime().transport;
  const int size = group->size(), next = (group->rank() + 1) % size, last = (group->rank() + size - 1) % size;
  net::Tag tag = group->begin(net::Operation::User, kProbeUnit);
  Instant begin;
  for (int round = 0; round < kWarmUp + rounds; ++round, ++tag.round) {
    if (round == kWarmUp) begin = group->runtime().executor().now();
    net::RecvOp receive(transport, group->global(last), tag, in->bytes(), DType::UInt8);
    net::SendOp send(transport, group->global(next), tag, out->bytes(), DType::UInt8);
    auto both = both_of(&receive, &send);
    co_await comm::settle(group->runtime().pending(), std::move(both));
  }
  co_return to_seconds(group->runtime().executor().now() - begin) / rounds;
}

/// Values of the size of gradients, of which some are much larger than most: what selection meets.
void fill(std::span<float> values) {
  std::uint64_t state = 0x9E3779B97F4A7C15U;
  for (float& value : values) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const float u = static_cast<float>(static_cast<std::int32_t>(state >> 32)) * 0x1p-31F;
    value = u * u * u * 1e-2F;
  }
}

task::Task<double> seconds_of(comm::Communicator* group, tensor::Kernel kernel) {
  comm::ExchangeKernel work(*group, std::move(kernel));
  co_await work.finished();
  co_return to_seconds(group->runtime().executor().now() - work.since());
}

/// One exchange without its messages.
task::Task<void> alone(const CompressedReduce* reduce) {
  ReduceKernels kernels(*reduce);
  const std::size_t rounds = reduce->codec.rounds().size();
  std::vector<tensor::Arena> wires;
  for (std::size_t r = 0; r < rounds; ++r)
    wires.emplace_back(DType::UInt8, reduce->codec.wire_bytes(static_cast<int>(r), kernels.extent()),
                       reduce->call.data);
  co_await kernels.encode(kernels.all(), wires[0].bytes(), 0);
  for (std::size_t r = 1; r < rounds; ++r) {
    co_await kernels.encode_next(static_cast<int>(r), wires[r - 1].bytes(), wires[r].bytes());
  }
  co_await kernels.decode(wires.back().bytes(), kernels.all(), codec::Into::Assign);
  co_await kernels.deliver(wires.back().bytes());
}

}  // namespace

task::Task<comm::LinkCost> probe_link(comm::Communicator* group) {
  net::Transport& transport = group->runtime().transport;
  const tensor::Arena out(transport, DType::UInt8, kLarge), in(transport, DType::UInt8, kLarge);
  const tensor::Arena little(transport, DType::UInt8, kSmall), back(transport, DType::UInt8, kSmall);
  const double latency = co_await shift(group, &little, &back, kSmallRounds);
  const double seconds = co_await shift(group, &out, &in, kLargeRounds);
  tensor::Kernel sum = comm::sum_kernel(DType::Float32, out.bytes(), {in.bytes()});
  const double sums = co_await seconds_of(group, std::move(sum));
  const comm::LinkCost link{latency, kLarge / std::max(seconds - latency, 1e-12), sums / kLarge};
  co_return link;
}

task::Task<CodecTime> probe_codec(comm::Communicator* group, const plan::CodecPlan* plan,
                                  codec::Extent extent, const codec::CodecRow* row) {
  net::Transport& transport = group->runtime().transport;
  const tensor::Arena values(transport, DType::Float32, extent.count);
  const View beside = values.bytes();
  const bool keeps = keeps_errors(*plan, *row);
  auto room = [&](bool wanted) { return tensor::Arena(DType::Float32, wanted ? extent.count : 0, beside); };
  const auto codec = row->make(plan->options);
  const tensor::Arena errors = room(keeps), velocity = room(plan->momentum > 0),
                      lasting = room(codec->lasts());
  // The turns after the first of a cycle are alike.
  const int turns = std::min(codec->cycle(), 2);
  CodecTime mean;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    mean = {};
    for (int turn = 0; turn < turns; ++turn) {
      tensor::Kernel filling{"probe", {}, [&values, all = Range{0, extent.count}](tensor::Milestones&) {
                               fill(values.values<float>(all));
                             }};
      co_await seconds_of(group, std::move(filling));
      const codec::Codec& here = codec->in_turn(turn);
      const codec::Feedback feedback(
          here, {.momentum = static_cast<float>(plan->momentum), .masking = plan->masking});
      const comm::Call call{values.bytes(), DType::Float32, kProbeUnit, 0};
      CodecWork work;
      CompressedReduce reduce{*group, here, feedback, call, keeps};
      reduce.context.shared = 1;
      reduce.context.own = 2;
      reduce.context.pieces = extent.pieces;
      reduce.work = &work;
      if (keeps) reduce.errors = errors.bytes();
      if (velocity.size() > 0) reduce.velocity = velocity.bytes();
      if (lasting.size() > 0) reduce.lasting = lasting.bytes();
      co_await alone(&reduce);
      const double share = (turn == 0 ? 1.0 : codec->cycle() - 1.0) / codec->cycle();
      mean.encode += share * to_seconds(work.encode);
      mean.decode += share * to_seconds(work.decode);
    }
  }
  co_return mean;
}

}  // namespace taxon::exchange
