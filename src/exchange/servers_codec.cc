// What of a worker's side of servers is about codecs.
#include "codec/wire.h"
#include "exchange/asks.h"
#include "exchange/coded.h"
#include "exchange/servers.h"
#include "exchange/trip.h"
#include "task/scope.h"

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

bool Servers::asked(Range range) const {
  return coders_.ask() && !coders_.contributions->leaves_dense(range.size, 0);
}

std::vector<std::size_t> Servers::sizes(Wires kind, Range range) const {
  const bool answers = kind == Wires::Answer && !coders_.ask();
  const Coder* coder = (answers ? coders_.answers : coders_.contributions).get();
  std::vector<std::size_t> sizes;
  if (!coder || coder->leaves_dense(range.size, 0)) return sizes;
  const codec::Codec& codec = coder->codec();
  for (int server = 0; server < roles_.servers(); ++server) {
    const std::size_t count = roles_.part_of(range, server).size;
    if (kind == Wires::Contribution || answers)
      sizes.push_back(coder->wire_bytes(count, 0));
    else if (kind == Wires::Question)
      sizes.push_back(codec.inquiry()->question_bytes(count));
    else if (kind == Wires::Response)
      sizes.push_back(codec.wire_bytes(1, count));
    else
      sizes.push_back(answer_bytes(*codec.inquiry(), count));
  }
  return sizes;
}

std::vector<View> Servers::wires_in(View room, const std::vector<std::size_t>& sizes) {
  std::vector<View> wires;
  std::size_t begin = 0;
  for (std::size_t bytes : sizes) {
    wires.push_back(room.slice(begin, bytes));
    begin += codec::padded(bytes);
  }
  return wires;
}

std::size_t Servers::room_for(const std::vector<std::size_t>& sizes) {
  std::size_t bytes = 0;
  for (std::size_t size : sizes) bytes += codec::padded(size);
  return bytes;
}

task::Task<void> Servers::encode(Leg leg, const tensor::Arena* values, std::vector<View> wires) {
  std::size_t bytes = 0;
  for (View wire : wires) bytes += wire.size();
  if (asked(leg.range))
    for (std::size_t size : sizes(Wires::Response, leg.range)) bytes += size;
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
    auto decoding = desk.decode(wires[server], desk.all(), codec::Into::Add,
                                roles_.member_of_server(static_cast<int>(server)));
    co_await decoding;
  }
}

Trip Servers::part_trip(Leg leg, const tensor::Arena* values, int server) {
  leg.range = roles_.part_of(leg.range, server);
  return coders_.contributions->trip(group_, leg, *values);
}

/// Servers ask when all have handed in, each when it is ready.
task::Task<void> Servers::respond(Leg leg, const tensor::Arena* values) {
  task::Scope responses(group_.runtime().waits());
  for (int i = 0; i < roles_.servers(); ++i)
    responses.spawn(respond_to((group_.rank() + i) % roles_.servers(), leg, values));
  co_await responses.join();
}

task::Task<void> Servers::respond_to(int server, Leg leg, const tensor::Arena* values) {
  net::Transport& transport = group_.runtime().transport;
  const std::uint32_t use = line(leg.unit).use;
  const auto s = static_cast<std::size_t>(server);
  const Rank peer = group_.global(roles_.member_of_server(server));
  comm::Scratch question(group_.scratch(), sizes(Wires::Question, leg.range)[s], values->bytes(leg.range));
  comm::Scratch response(group_.scratch(), sizes(Wires::Response, leg.range)[s], values->bytes(leg.range));
  {
    net::RecvOp hears(transport, peer, ServerWire::tag(group_, leg.unit, use, ServerWire::Question),
                      question.bytes(), DType::UInt8);
    co_await hears;
  }
  {
    const Trip trip = part_trip(leg, values, server);
    TripDesk desk(trip);
    auto responding = desk.respond(question.bytes(), response.bytes(), roles_.member_of_server(server));
    co_await responding;
  }
  net::SendOp tells(transport, peer, ServerWire::tag(group_, leg.unit, use, ServerWire::Response),
                    response.bytes(), DType::UInt8);
  co_await tells;
}

task::Task<void> Servers::take_over(Leg leg, const tensor::Arena* values, std::vector<View> wires) {
  for (std::size_t server = 0; server < wires.size(); ++server) {
    const Trip trip = part_trip(leg, values, static_cast<int>(server));
    TripDesk desk(trip);
    auto taking = desk.take_over(wires[server], roles_.member_of_server(static_cast<int>(server)));
    co_await taking;
  }
}

}  // namespace taxon::exchange
