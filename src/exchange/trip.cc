#include "exchange/trip.h"

#include <fmt/format.h>

#include <algorithm>

namespace taxon::exchange {

tensor::Cost TripDesk::cost_of(std::size_t count, Way way) const {
  const codec::Price price = trip_.codec.price();
  const auto n = static_cast<double>(count);
  const bool in = way == Way::Encode;
  // A memory is read, written and added to.
  const double remembering = in && trip_.keeps ? 12 : 0;
  return {n * (in ? price.encode_flops : price.decode_flops),
          static_cast<std::size_t>(n * (remembering + (in ? price.encode_bytes : price.decode_bytes)))};
}

task::Task<void> TripDesk::run(const char* name, std::size_t count, Way way,
                               UniqueFunction<void(tensor::Marks&)> body) {
  return run(name, cost_of(count, way), way, std::move(body));
}

task::Task<void> TripDesk::run(const char* name, tensor::Cost cost, Way way,
                               UniqueFunction<void(tensor::Marks&)> body) {
  const bool in = way == Way::Encode;
  tensor::Kernel kernel;
  kernel.name = name;
  kernel.cost = cost;
  kernel.body = std::move(body);
  comm::Runtime& runtime = trip_.group.runtime();
  comm::Span span{"exchange",
                  name,
                  static_cast<std::int64_t>(trip_.call.unit),
                  kernel.cost.bytes,
                  runtime.executor().now(),
                  {}};
  comm::Work work(trip_.group, std::move(kernel));
  auto end = work.finished();
  co_await end;
  span.end = runtime.executor().now();
  runtime.journal.add(span);
  if (trip_.work == nullptr) co_return;
  (in ? trip_.work->encode : trip_.work->decode) += span.end - work.since();
}

void TripDesk::wipe(std::span<float> values, Range range) const {
  if (trip_.codec.keeps_zeros() || trip_.use.pieces.empty() || values.empty()) return;
  const auto begin = values.begin() - static_cast<std::ptrdiff_t>(range.begin);
  std::size_t at = range.begin;
  auto clear_to = [&](std::size_t end) {
    end = std::min(end, range.end());
    if (end > at)
      std::fill(begin + static_cast<std::ptrdiff_t>(at), begin + static_cast<std::ptrdiff_t>(end), 0.0F);
  };
  for (const codec::Piece& piece : trip_.use.pieces) {
    clear_to(piece.range.begin);
    at = std::max(at, piece.range.end());
  }
  clear_to(range.end());
}

task::Task<void> TripDesk::encode(Range range, View wire, std::uint64_t chance) {
  return run("encode", range.size, Way::Encode, [this, range, wire, chance](tensor::Marks&) {
    std::span<float> values = floats(bytes(trip_.call.data, range));
    const codec::Memory memory = this->memory(range);
    if (memory.errors.empty() && memory.velocity.empty()) {
      trip_.codec.encode(0, values, wire, codec::Rest::Stay, use(chance));
      return;
    }
    trip_.feedback.encode(values, memory, wire, use(chance));
    wipe(memory.errors, range);
  });
}

task::Task<void> TripDesk::pass() {
  if (trip_.velocity.empty()) co_return;
  auto passing = run("encode", count_, Way::Encode, [this](tensor::Marks&) {
    trip_.feedback.pass(floats(trip_.call.data), memory(all()), use());
  });
  co_await passing;
}

task::Task<void> TripDesk::encode_next(int round, ConstView sum, View wire) {
  const tensor::Cost cost = trip_.codec.asking() ? cost_of_choosing(count_) : cost_of(count_, Way::Decode);
  return run("encode", cost, Way::Decode, [this, round, sum, wire](tensor::Marks&) {
    trip_.codec.absorb(round - 1, encoded(), sum, use());
    trip_.codec.encode(round, encoded(), wire, codec::Rest::Stay, use());
  });
}

void TripDesk::blame(std::optional<int> from, const Error& error) const {
  if (!from || error.context().rank) throw Error(error);
  const Rank rank = trip_.group.global(*from);
  throw Error(error.kind(), fmt::format("from rank {}: {}", rank.value(), error.what()),
              ErrorContext{rank, "codec", {}});
}

task::Task<void> TripDesk::decode(ConstView wire, Range range, codec::Into into, std::optional<int> from) {
  return run("decode", range.size, Way::Decode, [this, wire, range, into, from](tensor::Marks&) {
    std::span<float> values = floats(bytes(trip_.call.data, range));
    of_member(from, [&] { trip_.codec.decode(wire, values, into, use()); });
    wipe(values, range);
  });
}

task::Task<void> TripDesk::deliver(ConstView wire) {
  if (!trip_.keeps || trip_.codec.settles() != codec::Settles::Delivered) co_return;
  auto settling = run("settle", 0, Way::Decode,
                      [this, wire](tensor::Marks&) { trip_.feedback.delivered(wire, memory(all()), use()); });
  co_await settling;
}

task::Task<void> TripDesk::encode_sum(Range range, View wire, std::uint64_t chance, int round) {
  return run("encode", range.size, Way::Encode, [this, range, wire, chance, round](tensor::Marks&) {
    std::span<float> values = floats(bytes(trip_.call.data, range));
    const codec::Rest rest = trip_.keeps ? codec::Rest::Keep : codec::Rest::Stay;
    const bool finite = trip_.codec.encode(round, values, wire, rest, use(chance));
    if (!trip_.keeps || !finite) return;
    std::span<float> errors = memory(range).errors;
    trip_.feedback.take_back(values, errors);
    wipe(errors, range);
  });
}

task::Task<void> TripDesk::conclude() {
  if (!trip_.feedback.estimates()) co_return;
  auto concluding = run("decode", count_, Way::Decode, [this](tensor::Marks&) {
    trip_.feedback.conclude(floats(trip_.call.data), floats(trip_.estimate), floats(trip_.errors));
  });
  co_await concluding;
}

task::Task<void> TripDesk::merge(View into, ConstView other, int from) {
  return run("merge", count_, Way::Decode, [this, into, other, from](tensor::Marks&) {
    of_member(from, [&] {
      trip_.codec.merge(into, other, trip_.keeps ? memory(all()).errors : std::span<float>(), use());
    });
  });
}

}  // namespace taxon::exchange
