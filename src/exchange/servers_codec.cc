// What of a worker's side of servers is about codecs.
#include "codec/wire.h"
#include "exchange/coded.h"
#include "exchange/servers.h"
#include "exchange/trip.h"

namespace taxon::exchange {
namespace {

std::unique_ptr<Coder> coder_of_answers(const TopologyContext& context) {
  if (context.level.codec.answer == "none") return {};
  plan::LevelPlan level = context.level;
  level.codec.name = level.codec.answer;
  // What an answer lacks is in the next difference.
  level.codec.feedback = "none";
  level.codec.momentum = 0;
  TopologyContext back{level};
  back.seed = context.seed;
  back.codecs = context.codecs;
  return std::make_unique<Coder>(back);
}

}  // namespace

ServerCoders::ServerCoders(const TopologyContext& context)
    : contributions(is_coded(context.level) ? std::make_unique<Coder>(context) : nullptr),
      answers(coder_of_answers(context)) {}

void Servers::prepare(const tensor::Arena& like, std::span<const tensor::Slot> slots) {
  if (coders_.answers) coders_.answers->know(slots);
  if (coders_.contributions && roles_.works(group_.rank())) coders_.contributions->prepare(like, slots);
}

std::vector<Topology::Kept> Servers::kept() const {
  return coders_.contributions ? coders_.contributions->kept() : std::vector<Kept>();
}

const CodecWork* Servers::codec_work() const {
  return coders_.contributions ? &coders_.contributions->work() : nullptr;
}

std::vector<View> Servers::wires_of(const Coder& coder, Range range, View room) const {
  std::vector<View> wires;
  std::size_t begin = 0;
  for (int server = 0; server < roles_.servers(); ++server) {
    const std::size_t bytes = coder.wire_bytes(roles_.part_of(range, server).size, 0);
    wires.push_back(room.slice(begin, bytes));
    begin += codec::padded(bytes);
  }
  return wires;
}

std::size_t Servers::room_for(const Coder* coder, Range range) const {
  std::size_t bytes = 0;
  for (int server = 0; coder && server < roles_.servers(); ++server)
    bytes += codec::padded(coder->wire_bytes(roles_.part_of(range, server).size, 0));
  return bytes;
}

task::Task<void> Servers::encode(Leg leg, const tensor::Arena* values, std::vector<View> wires) {
  std::size_t bytes = 0;
  for (View wire : wires) bytes += wire.size();
  const double others = 1 - (roles_.serves(group_.rank()) ? 1.0 / roles_.servers() : 0);  // not to itself
  coders_.contributions->count(others * static_cast<double>(values->bytes(leg.range).size()),
                               others * static_cast<double>(bytes));
  const Trip trip = coders_.contributions->trip(group_, leg, *values);
  TripDesk desk(trip);
  for (std::size_t server = 0; server < wires.size(); ++server) {
    auto encoding =
        desk.encode(roles_.part_of(desk.all(), static_cast<int>(server)), wires[server], server + 1);
    co_await encoding;
  }
}

/// What servers answered is added to the values that the worker has.
task::Task<void> Servers::decode(Leg leg, const tensor::Arena* values, std::vector<View> wires) {
  for (std::size_t server = 0; server < wires.size(); ++server) {
    Leg part = leg;
    part.range = roles_.part_of(leg.range, static_cast<int>(server));
    part.round = ServerCoders::round_of_answer(lines_.at(leg.unit).versions[server]);
    const Trip trip = coders_.answers->trip_of(group_, part, values->bytes(part.range));
    TripDesk desk(trip);
    auto decoding = desk.decode(wires[server], desk.all(), codec::Into::Add);
    co_await decoding;
  }
}

}  // namespace taxon::exchange
