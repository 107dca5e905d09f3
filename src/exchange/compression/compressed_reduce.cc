#include "exchange/compression/compressed_reduce.h"

#include <fmt/format.h>

#include <algorithm>

namespace taxon::exchange {

tensor::Cost ReduceKernels::cost_of(std::size_t count, Way way) const {
  const codec::ElementCost element = reduce_.codec.cost();
  const auto n = static_cast<double>(count);
  const bool in = way == Way::Encode;
  // A memory is read, written and added to.
  const double remembering = in && reduce_.keeps ? 12 : 0;
  return {n * (in ? element.encode_flops : element.decode_flops),
          static_cast<std::size_t>(n * (remembering + (in ? element.encode_bytes : element.decode_bytes)))};
}

task::Task<void> ReduceKernels::run(const char* name, std::size_t count, Way way,
                                    UniqueFunction<void(tensor::Milestones&)> body) {
  return run(name, cost_of(count, way), way, std::move(body));
}

task::Task<void> ReduceKernels::run(const char* name, tensor::Cost cost, Way way,
                                    UniqueFunction<void(tensor::Milestones&)> body) {
  const bool in = way == Way::Encode;
  tensor::Kernel kernel;
  kernel.name = name;
  kernel.cost = cost;
  kernel.body = std::move(body);
  comm::Runtime& runtime = reduce_.group.runtime();
  comm::Span span{"exchange",
                  name,
                  static_cast<std::int64_t>(reduce_.call.unit),
                  kernel.cost.bytes,
                  runtime.executor().now(),
                  {}};
  comm::ExchangeKernel work(reduce_.group, std::move(kernel));
  auto end = work.finished();
  co_await end;
  span.end = runtime.executor().now();
  runtime.recorder.add(span);
  if (reduce_.work == nullptr) co_return;
  (in ? reduce_.work->encode : reduce_.work->decode) += span.end - work.since();
}

void ReduceKernels::wipe(std::span<float> values, Range range) const {
  if (reduce_.codec.keeps_zeros() || reduce_.context.pieces.empty() || values.empty()) return;
  const auto begin = values.begin() - static_cast<std::ptrdiff_t>(range.begin);
  std::size_t at = range.begin;
  auto clear_to = [&](std::size_t end) {
    end = std::min(end, range.end());
    if (end > at)
      std::fill(begin + static_cast<std::ptrdiff_t>(at), begin + static_cast<std::ptrdiff_t>(end), 0.0F);
  };
  for (const codec::Piece& piece : reduce_.context.pieces) {
    clear_to(piece.range.begin);
    at = std::max(at, piece.range.end());
  }
  clear_to(range.end());
}

task::Task<void> ReduceKernels::encode(Range range, View wire, std::uint64_t chance) {
  return run("encode", range.size, Way::Encode, [this, range, wire, chance](tensor::Milestones&) {
    std::span<float> values = floats(bytes(reduce_.call.data, range));
    const codec::Memory memory = this->memory(range);
    if (memory.errors.empty() && memory.velocity.empty()) {
      reduce_.codec.encode(0, values, wire, codec::Residual::Stay, context(chance));
      return;
    }
    reduce_.feedback.encode(values, memory, wire, context(chance));
    wipe(memory.errors, range);
  });
}

task::Task<void> ReduceKernels::pass() {
  if (reduce_.velocity.empty()) co_return;
  auto passing = run("encode", count_, Way::Encode, [this](tensor::Milestones&) {
    reduce_.feedback.pass(floats(reduce_.call.data), memory(all()), context());
  });
  co_await passing;
}

task::Task<void> ReduceKernels::encode_next(int round, ConstView sum, View wire) {
  const tensor::Cost cost =
      reduce_.codec.part_query() ? cost_of_choosing(count_) : cost_of(count_, Way::Decode);
  return run("encode", cost, Way::Decode, [this, round, sum, wire](tensor::Milestones&) {
    reduce_.codec.absorb(round - 1, encoded(), sum, context());
    reduce_.codec.encode(round, encoded(), wire, codec::Residual::Stay, context());
  });
}

void ReduceKernels::blame(std::optional<int> from, const Error& error) const {
  if (!from || error.context().rank) throw Error(error);
  const Rank rank = reduce_.group.global(*from);
  throw Error(error.kind(), fmt::format("from rank {}: {}", rank.value(), error.what()),
              ErrorContext{rank, "codec", {}});
}

task::Task<void> ReduceKernels::decode(ConstView wire, Range range, codec::Into into,
                                       std::optional<int> from) {
  return run("decode", range.size, Way::Decode, [this, wire, range, into, from](tensor::Milestones&) {
    std::span<float> values = floats(bytes(reduce_.call.data, range));
    of_member(from, [&] { reduce_.codec.decode(wire, values, into, context()); });
    wipe(values, range);
  });
}

task::Task<void> ReduceKernels::deliver(ConstView wire) {
  if (!reduce_.keeps || reduce_.codec.residual_timing() != codec::ResidualTiming::Delivered) co_return;
  auto settling = run("settle", 0, Way::Decode, [this, wire](tensor::Milestones&) {
    reduce_.feedback.delivered(wire, memory(all()), context());
  });
  co_await settling;
}

task::Task<void> ReduceKernels::encode_sum(Range range, View wire, std::uint64_t chance, int round) {
  return run("encode", range.size, Way::Encode, [this, range, wire, chance, round](tensor::Milestones&) {
    std::span<float> values = floats(bytes(reduce_.call.data, range));
    const codec::Residual rest = reduce_.keeps ? codec::Residual::Keep : codec::Residual::Stay;
    const bool finite = reduce_.codec.encode(round, values, wire, rest, context(chance));
    if (!reduce_.keeps || !finite) return;
    std::span<float> errors = memory(range).errors;
    reduce_.feedback.take_back(values, errors);
    wipe(errors, range);
  });
}

task::Task<void> ReduceKernels::conclude() {
  if (!reduce_.feedback.estimates()) co_return;
  auto concluding = run("decode", count_, Way::Decode, [this](tensor::Milestones&) {
    reduce_.feedback.conclude(floats(reduce_.call.data), floats(reduce_.estimate), floats(reduce_.errors));
  });
  co_await concluding;
}

task::Task<void> ReduceKernels::merge(View into, ConstView other, int from) {
  return run("merge", count_, Way::Decode, [this, into, other, from](tensor::Milestones&) {
    of_member(from, [&] {
      reduce_.codec.merge(into, other, reduce_.keeps ? memory(all()).errors : std::span<float>(), context());
    });
  });
}

}  // namespace taxon::exchange
