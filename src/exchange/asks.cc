// Rounds of a codec whose sums one member alone has: it asks, the others respond.
#include "exchange/asks.h"

#include <algorithm>

#include "exchange/trip.h"

namespace taxon::exchange {
namespace {

constexpr std::uint32_t kAnswer = codec::letters("answ");

}  // namespace

std::size_t answer_bytes(const codec::Inquiry& inquiry, std::size_t count) {
  return codec::entries_bytes(inquiry.entries(count));
}

void write_answer(View wire, const Chosen& chosen, std::span<const float> values,
                  const codec::Inquiry& inquiry) {
  const std::size_t entries = inquiry.entries(values.size());
  auto body = as_span<std::uint32_t>(codec::body_of(wire));
  std::fill(body.begin(), body.end(), 0U);
  const codec::EntriesToFill fill = codec::entries_to_fill(wire, entries);
  for (std::size_t i = 0; i < chosen.places.size(); ++i) {
    fill.places[i] = chosen.places[i];
    fill.values[i] = values[chosen.places[i]];
  }
  codec::seal(wire, {kAnswer, chosen.finite ? 0 : codec::kNotFinite, values.size(), entries});
}

codec::Entries open_answer(ConstView wire, std::size_t count, const codec::Inquiry& inquiry) {
  return codec::open_entries(wire, {kAnswer, 0, count, inquiry.entries(count)});
}

std::size_t asked_bytes(const codec::Codec& codec, std::size_t count) {
  const codec::Inquiry& inquiry = *codec.inquiry();
  return codec.wire_bytes(0, count) + inquiry.question_bytes(count) + codec.wire_bytes(1, count) +
         answer_bytes(inquiry, count);
}

task::Task<void> TripDesk::ask(ConstView sum, View question) {
  return run("ask", count_, Way::Decode, [this, sum, question](tensor::Marks&) {
    trip_.codec.absorb(0, floats(trip_.call.data), sum, use());
    trip_.codec.inquiry()->ask(question, count_, use());
  });
}

task::Task<void> TripDesk::find(ConstView sum, Chosen* chosen) {
  return run("find", trip_.codec.inquiry()->entries(count_), Way::Decode,
             [this, sum, chosen](tensor::Marks&) {
               chosen->places.resize(trip_.codec.inquiry()->entries(count_));
               chosen->finite = trip_.codec.inquiry()->find(sum, chosen->places, count_, use());
               if (!chosen->finite) chosen->places.clear();
             });
}

task::Task<void> TripDesk::respond(ConstView question, View wire, int from) {
  const std::size_t entries = wire.size() / sizeof(float);
  return run("respond", entries, Way::Decode, [this, question, wire, from](tensor::Marks&) {
    of_member(from, [&] { trip_.codec.inquiry()->hear(question, count_, use()); });
    trip_.codec.encode(1, encoded(), wire, codec::Rest::Stay, use());
  });
}

task::Task<void> TripDesk::take_over(ConstView answer, int from) {
  const std::size_t entries = trip_.codec.inquiry()->entries(count_);
  return run("take over", entries, Way::Decode, [this, answer, from](tensor::Marks&) {
    codec::Entries now;
    of_member(from, [&] { now = open_answer(answer, count_, *trip_.codec.inquiry()); });
    std::span<float> values = floats(trip_.call.data);
    if (!now.finite) return codec::fill_not_finite(values);
    for (std::size_t i = 0; i < now.places.size(); ++i) values[now.places[i]] = now.values[i];
    if (trip_.keeps) trip_.feedback.delivered(now.places, memory(all()));
  });
}

}  // namespace taxon::exchange
