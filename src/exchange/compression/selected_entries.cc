// Rounds of a codec whose sums one member alone has: it asks, the others respond.
#include "exchange/compression/selected_entries.h"

#include <algorithm>

#include "exchange/compression/compressed_reduce.h"

namespace taxon::exchange {
namespace {

constexpr std::uint32_t kAnswer = codec::letters("answ");

}  // namespace

std::size_t answer_bytes(const codec::CoordinateQuery& inquiry, std::size_t count) {
  return codec::entries_bytes(inquiry.entries(count));
}

void write_answer(View wire, const SelectedEntries& chosen, std::span<const float> values,
                  const codec::CoordinateQuery& inquiry) {
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

codec::Entries open_answer(ConstView wire, std::size_t count, const codec::CoordinateQuery& inquiry) {
  return codec::open_entries(wire, {kAnswer, 0, count, inquiry.entries(count)});
}

std::size_t asked_bytes(const codec::Codec& codec, std::size_t count) {
  const codec::CoordinateQuery& inquiry = *codec.coordinate_query();
  return codec.wire_bytes(0, count) + inquiry.question_bytes(count) + codec.wire_bytes(1, count) +
         answer_bytes(inquiry, count);
}

task::Task<void> ReduceKernels::ask(ConstView sum, View question) {
  return run("ask", count_, Way::Decode, [this, sum, question](tensor::Milestones&) {
    reduce_.codec.absorb(0, floats(reduce_.call.data), sum, context());
    reduce_.codec.coordinate_query()->ask(question, count_, context());
  });
}

task::Task<void> ReduceKernels::find(ConstView sum, SelectedEntries* chosen) {
  return run("find", reduce_.codec.coordinate_query()->entries(count_), Way::Decode,
             [this, sum, chosen](tensor::Milestones&) {
               chosen->places.resize(reduce_.codec.coordinate_query()->entries(count_));
               chosen->finite =
                   reduce_.codec.coordinate_query()->find(sum, chosen->places, count_, context());
               if (!chosen->finite) chosen->places.clear();
             });
}

task::Task<void> ReduceKernels::respond(ConstView question, View wire, int from) {
  const std::size_t entries = wire.size() / sizeof(float);
  return run("respond", entries, Way::Decode, [this, question, wire, from](tensor::Milestones&) {
    of_member(from, [&] { reduce_.codec.coordinate_query()->receive(question, count_, context()); });
    reduce_.codec.encode(1, encoded(), wire, codec::Residual::Stay, context());
  });
}

task::Task<void> ReduceKernels::take_over(ConstView answer, int from) {
  const std::size_t entries = reduce_.codec.coordinate_query()->entries(count_);
  return run("take over", entries, Way::Decode, [this, answer, from](tensor::Milestones&) {
    codec::Entries now;
    of_member(from, [&] { now = open_answer(answer, count_, *reduce_.codec.coordinate_query()); });
    std::span<float> values = floats(reduce_.call.data);
    if (!now.finite) return codec::fill_not_finite(values);
    for (std::size_t i = 0; i < now.places.size(); ++i) values[now.places[i]] = now.values[i];
    if (reduce_.keeps) reduce_.feedback.delivered(now.places, memory(all()));
  });
}

}  // namespace taxon::exchange
