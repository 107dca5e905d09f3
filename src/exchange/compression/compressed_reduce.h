#pragma once

#include <optional>

#include "comm/in_flight.h"
#include "comm/kernels.h"
#include "comm/scratch.h"
#include "comm/trace_scope.h"
#include "exchange/compression/aggregation.h"
#include "exchange/compression/selected_entries.h"

namespace taxon::exchange {

/// What all ways to sum wires need of a reduction: its memory, and its arithmetic as kernels of the exchange
/// stream.
class ReduceKernels {
 public:
  explicit ReduceKernels(const CompressedReduce& reduce)
      : reduce_(reduce),
        count_(reduce.call.data.size() / sizeof(float)),
        scratch_(reduce.group.scratch(), reduce.codec.scratch_bytes({count_, reduce.context.pieces}),
                 reduce.call.data) {}

  std::size_t count() const { return count_; }
  const CompressedReduce& reduce() const { return reduce_; }
  comm::Communicator& group() const { return reduce_.group; }
  codec::Extent extent() const { return {count_, reduce_.context.pieces}; }
  Range all() const { return {0, count_}; }
  Range own_part() const { return part_of(reduce_.group.rank()); }
  Range part_of(int member) const {
    return part(all(), static_cast<std::size_t>(reduce_.group.size()), static_cast<std::size_t>(member));
  }

  /// The first round's wire of a run of the values, with what the memory adds.
  task::Task<void> encode(Range range, View wire, std::uint64_t chance);
  /// In place of a wire, where values travel as they are: what feedback makes of them.
  task::Task<void> pass();
  /// The wire of a later round, from the sum of the round before.
  task::Task<void> encode_next(int round, ConstView sum, View wire);
  // Of a wire that its codec refuses the error names member `from`, who made it.

  /// Values := or += what a wire stands for; from everybody where it is a sum.
  task::Task<void> decode(ConstView wire, Range range, codec::Into into, std::optional<int> from = {});
  /// The last round's sum is known: what codecs settle only then.
  task::Task<void> deliver(ConstView wire);
  /// The wire of values that are a sum already; the memory keeps what it lacks.
  task::Task<void> encode_sum(Range range, View wire, std::uint64_t chance, int round = 0);
  /// Where one member alone has the sums, of codecs that ask. There: the question, from the first round's
  /// sum; afterwards, from the last one's, the places that counted.
  task::Task<void> ask(ConstView sum, View question);
  task::Task<void> find(ConstView sum, SelectedEntries* chosen);
  /// At the others: the wire of the second round, which answers; and at the end what became of the entries
  /// that counted, which the values take over and the memory forgets.
  task::Task<void> respond(ConstView question, View wire, int from);
  task::Task<void> take_over(ConstView entries, int from);

  /// Of codecs of algebra Asked, at the owner of a range: the question, from everybody's first wires of it,
  /// by member.
  task::Task<void> inquire(std::span<const View> wires, Range range, View question);
  /// Everywhere: the wire of the second round that answers the question about a range, and values := or +=
  /// what such a wire stands for.
  task::Task<void> answer(ConstView question, Range range, View wire, int from);
  task::Task<void> decode_answer(ConstView question, ConstView wire, Range range, codec::Into into, int from);

  /// All is decoded: what feedback makes of the sum.
  task::Task<void> conclude();
  /// `into` := both.
  task::Task<void> merge(View into, ConstView other, int from);

 private:
  View bytes(View whole, Range range) const {
    return whole.slice(range.begin * sizeof(float), range.size * sizeof(float));
  }
  static std::span<float> floats(View view) { return as_span<float>(view); }
  codec::Memory memory(Range range) const {
    auto part = [&](View whole) { return whole.empty() ? std::span<float>() : floats(bytes(whole, range)); };
    return {part(reduce_.errors), part(reduce_.velocity)};
  }
  codec::CodecContext context(std::uint64_t chance = 0) const {
    codec::CodecContext context = reduce_.context;
    if (!reduce_.lasting.empty()) context.lasting = floats(reduce_.lasting);
    context.scratch = scratch_.bytes();
    context.own ^= chance * 0x9E3779B97F4A7C15U;
    return context;
  }
  /// Zeroes what lies between tensors, in floats of `range`, where the codec does not.
  void wipe(std::span<float> values, Range range) const;
  /// What a memory holds after accumulating: where the next rounds read.
  std::span<float> encoded() const { return floats(reduce_.keeps ? reduce_.errors : reduce_.call.data); }
  template <class Body>
  void of_member(std::optional<int> from, Body&& body) const {
    try {
      body();
    } catch (const Error& error) {
      blame(from, error);
    }
  }
  [[noreturn]] void blame(std::optional<int> from, const Error& error) const;
  enum class Way { Encode, Decode };
  tensor::Cost cost_of(std::size_t count, Way way) const;
  /// Of codecs of algebra Asked.
  tensor::Cost cost_of_choosing(std::size_t count) const;
  task::Task<void> run(const char* name, tensor::Cost cost, Way way,
                       UniqueFunction<void(tensor::Milestones&)> body);
  task::Task<void> run(const char* name, std::size_t count, Way way,
                       UniqueFunction<void(tensor::Milestones&)> body);

  const CompressedReduce& reduce_;
  const std::size_t count_;
  comm::Scratch scratch_;
};

}  // namespace taxon::exchange
