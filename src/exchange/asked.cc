// Rounds of codecs of algebra Asked: owners of parts read the first one, and ask for the second.
#include "exchange/part_wires.h"
#include "exchange/trip.h"

namespace taxon::exchange {

tensor::Cost TripDesk::cost_of_choosing(std::size_t count) const {
  const codec::Price price = trip_.codec.asking()->price_of_choosing();
  const auto n = static_cast<double>(count);
  return {n * price.decode_flops, static_cast<std::size_t>(n * price.decode_bytes)};
}

task::Task<void> TripDesk::inquire(std::span<const View> wires, Range range, View question) {
  tensor::Cost cost = cost_of_choosing(range.size);
  for (const View wire : wires) {  // a value of a table is read, and added to what is there
    cost.flops += static_cast<double>(wire.size());
    cost.bytes += 9 * wire.size();
  }
  return run("ask", cost, Way::Decode, [this, wires, range, question](tensor::Marks&) {
    const codec::Asking& asking = *trip_.codec.asking();
    asking.begin(range.size, use());
    for (std::size_t member = 0; member < wires.size(); ++member)
      of_member(static_cast<int>(member), [&] { asking.add(wires[member], range.size, use()); });
    asking.ask(question, range.size, use());
  });
}

task::Task<void> TripDesk::answer(ConstView question, Range range, View wire, int from) {
  const std::uint64_t chance = static_cast<std::uint64_t>(from) + 1;
  return run("answer", wire.size(), Way::Decode, [this, question, range, wire, from, chance](tensor::Marks&) {
    of_member(from, [&] { trip_.codec.asking()->hear(question, range.size, use()); });
    if (trip_.keeps)
      trip_.feedback.answer(memory(range), wire, use(chance));
    else
      trip_.codec.encode(1, floats(bytes(trip_.call.data, range)), wire, codec::Rest::Stay, use(chance));
  });
}

task::Task<void> TripDesk::decode_answer(ConstView question, ConstView wire, Range range, codec::Into into,
                                         int from) {
  return run("decode", range.size, Way::Decode, [this, question, wire, range, into, from](tensor::Marks&) {
    of_member(from, [&] {
      trip_.codec.asking()->hear(question, range.size, use());
      trip_.codec.decode(wire, floats(bytes(trip_.call.data, range)), into, use());
    });
  });
}

task::Task<void> travel_asked(Trip trip) {
  TripDesk desk(trip);
  const int size = trip.group.size(), rank = trip.group.rank();
  const codec::Asking& asking = *trip.codec.asking();
  const auto question_bytes = [&](int member) { return asking.question_bytes(desk.part_of(member).size); };
  GatheredWires questions(desk, question_bytes(0));
  const auto question = [&](int member) { return questions.of(member, question_bytes(member)); };
  {
    PartWires first(desk, 0);
    for (int member = 0; member < size; ++member) {
      auto encoding =
          desk.encode(desk.part_of(member), first.mine(member), static_cast<std::uint64_t>(member) + 1);
      co_await encoding;
    }
    auto swapping = first.swap(desk);
    co_await swapping;
    const std::vector<View> wires = first.all_of_theirs();
    auto inquiring = desk.inquire(wires, desk.own_part(), question(rank));
    co_await inquiring;
  }
  auto asking_all = questions.gather(desk);
  co_await asking_all;
  {
    PartWires second(desk, 1);
    for (int member = 0; member < size; ++member) {
      auto answering = desk.answer(question(member), desk.part_of(member), second.mine(member), member);
      co_await answering;
    }
    auto swapping = second.swap(desk);
    co_await swapping;
    for (int member = 0; member < size; ++member) {
      auto decoding = desk.decode_answer(question(rank), second.theirs(member), desk.own_part(),
                                         member == 0 ? codec::Into::Assign : codec::Into::Add, member);
      co_await decoding;
    }
  }
  GatheredWires sums(desk, trip.codec.wire_bytes(1, desk.part_of(0).size));
  const auto sum = [&](int member) {
    return sums.of(member, trip.codec.wire_bytes(1, desk.part_of(member).size));
  };
  auto encoding = desk.encode_sum(desk.own_part(), sum(rank), 0, 1);
  co_await encoding;
  auto gathering = sums.gather(desk);
  co_await gathering;
  for (int member = 0; member < size; ++member) {
    auto decoding =
        desk.decode_answer(question(member), sum(member), desk.part_of(member), codec::Into::Assign, member);
    co_await decoding;
  }
}

double sent_asked(const codec::Codec& codec, const codec::Extent& extent, int size) {
  const std::size_t longest = longest_part(extent, size);
  return sent_to_owners(codec, 0, extent, size) + sent_to_all(codec.asking()->question_bytes(longest), size) +
         sent_to_owners(codec, 1, extent, size) + sent_to_all(codec.wire_bytes(1, longest), size);
}

double seconds_asked(const codec::Codec& codec, const codec::Extent& extent, const TravelLinks& links) {
  const std::size_t longest = longest_part(extent, links.size);
  return seconds_to_owners(codec.wire_bytes(0, longest), links) +
         seconds_to_all(codec.asking()->question_bytes(longest), links) +
         seconds_to_owners(codec.wire_bytes(1, longest), links) +
         seconds_to_all(codec.wire_bytes(1, longest), links);
}

}  // namespace taxon::exchange
