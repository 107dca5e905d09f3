// Rounds of codecs of algebra Asked: owners of parts read the first one, and ask for the second.
#include "exchange/compression/compressed_reduce.h"
#include "exchange/compression/part_wires.h"

namespace taxon::exchange {

tensor::Cost ReduceKernels::cost_of_choosing(std::size_t count) const {
  const codec::ElementCost element = reduce_.codec.part_query()->cost_of_choosing();
  const auto n = static_cast<double>(count);
  return {n * element.decode_flops, static_cast<std::size_t>(n * element.decode_bytes)};
}

task::Task<void> ReduceKernels::inquire(std::span<const View> wires, Range range, View question) {
  tensor::Cost cost = cost_of_choosing(range.size);
  for (const View wire : wires) {  // a value of a table is read, and added to what is there
    cost.flops += static_cast<double>(wire.size());
    cost.bytes += 9 * wire.size();
  }
  return run("ask", cost, Way::Decode, [this, wires, range, question](tensor::Milestones&) {
    const codec::PartQuery& asking = *reduce_.codec.part_query();
    asking.begin(range.size, context());
    for (std::size_t member = 0; member < wires.size(); ++member)
      of_member(static_cast<int>(member), [&] { asking.add(wires[member], range.size, context()); });
    asking.ask(question, range.size, context());
  });
}

task::Task<void> ReduceKernels::answer(ConstView question, Range range, View wire, int from) {
  const std::uint64_t chance = static_cast<std::uint64_t>(from) + 1;
  return run("answer", wire.size(), Way::Decode,
             [this, question, range, wire, from, chance](tensor::Milestones&) {
               of_member(from, [&] { reduce_.codec.part_query()->receive(question, range.size, context()); });
               if (reduce_.keeps)
                 reduce_.feedback.answer(memory(range), wire, context(chance));
               else
                 reduce_.codec.encode(1, floats(bytes(reduce_.call.data, range)), wire, codec::Residual::Stay,
                                      context(chance));
             });
}

task::Task<void> ReduceKernels::decode_answer(ConstView question, ConstView wire, Range range,
                                              codec::Into into, int from) {
  return run("decode", range.size, Way::Decode,
             [this, question, wire, range, into, from](tensor::Milestones&) {
               of_member(from, [&] {
                 reduce_.codec.part_query()->receive(question, range.size, context());
                 reduce_.codec.decode(wire, floats(bytes(reduce_.call.data, range)), into, context());
               });
             });
}

task::Task<void> aggregate_by_query(CompressedReduce reduce) {
  ReduceKernels kernels(reduce);
  const int size = reduce.group.size(), rank = reduce.group.rank();
  const codec::PartQuery& asking = *reduce.codec.part_query();
  const auto question_bytes = [&](int member) { return asking.question_bytes(kernels.part_of(member).size); };
  GatheredWires questions(kernels, question_bytes(0));
  const auto question = [&](int member) { return questions.of(member, question_bytes(member)); };
  {
    PartWires first(kernels, 0);
    for (int member = 0; member < size; ++member) {
      co_await kernels.encode(kernels.part_of(member), first.mine(member),
                              static_cast<std::uint64_t>(member) + 1);
    }
    co_await first.swap(kernels);
    const std::vector<View> wires = first.all_of_theirs();
    co_await kernels.inquire(wires, kernels.own_part(), question(rank));
  }
  co_await questions.gather(kernels);
  {
    PartWires second(kernels, 1);
    for (int member = 0; member < size; ++member) {
      co_await kernels.answer(question(member), kernels.part_of(member), second.mine(member), member);
    }
    co_await second.swap(kernels);
    for (int member = 0; member < size; ++member) {
      auto decoding = kernels.decode_answer(question(rank), second.theirs(member), kernels.own_part(),
                                            member == 0 ? codec::Into::Assign : codec::Into::Add, member);
      co_await decoding;
    }
  }
  GatheredWires sums(kernels, reduce.codec.wire_bytes(1, kernels.part_of(0).size));
  const auto sum = [&](int member) {
    return sums.of(member, reduce.codec.wire_bytes(1, kernels.part_of(member).size));
  };
  co_await kernels.encode_sum(kernels.own_part(), sum(rank), 0, 1);
  co_await sums.gather(kernels);
  for (int member = 0; member < size; ++member) {
    co_await kernels.decode_answer(question(member), sum(member), kernels.part_of(member),
                                   codec::Into::Assign, member);
  }
}

double sent_by_query(const codec::Codec& codec, const codec::Extent& extent, int size) {
  const std::size_t longest = longest_part(extent, size);
  return sent_to_owners(codec, 0, extent, size) +
         sent_to_all(codec.part_query()->question_bytes(longest), size) +
         sent_to_owners(codec, 1, extent, size) + sent_to_all(codec.wire_bytes(1, longest), size);
}

double seconds_by_query(const codec::Codec& codec, const codec::Extent& extent,
                        const AggregationLinks& links) {
  const std::size_t longest = longest_part(extent, links.size);
  return seconds_to_owners(codec.wire_bytes(0, longest), links) +
         seconds_to_all(codec.part_query()->question_bytes(longest), links) +
         seconds_to_owners(codec.wire_bytes(1, longest), links) +
         seconds_to_all(codec.wire_bytes(1, longest), links);
}

}  // namespace taxon::exchange
