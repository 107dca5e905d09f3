#include "exchange/servers.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "comm/in_flight.h"
#include "comm/recorded.h"
#include "comm/scratch.h"

namespace taxon::exchange {
namespace {

using Head = ServerWire::Head;

View bytes_of(Head& head) { return as_view(std::span<std::int64_t>(head)); }
ConstView bytes_of(const Head& head) { return as_const_view(std::span<const std::int64_t>(head)); }

template <class Op>
task::Task<void> await_all(std::deque<Op>* ops) {
  for (Op& op : *ops) co_await op;
}

/// Waits for operations that the caller's frame owns; when one fails, the network lets go of all first.
template <class Op>
task::Task<void> settled(comm::Communicator& group, std::deque<Op>* ops) {
  auto waiting = await_all(ops);
  return comm::settle(group.runtime().waits(), std::move(waiting));
}

}  // namespace

net::Tag ServerWire::tag(const comm::Communicator& group, std::uint32_t unit, std::uint32_t use,
                         Message message) {
  net::Tag tag = group.tag(net::Operation::Serve, unit);
  tag.sequence = use;
  tag.round = message;
  return tag;
}

Servers::Servers(comm::Communicator& group, TopologyContext context)
    : group_(group), roles_{group.size(), context.servers}, chronicle_(context.chronicle), coders_(context) {
  if (chronicle_.follow) script_.emplace("turns", *chronicle_.follow, Act::Role::Worker, Act::kNoUnit);
}

/// Which answers have come by now decides, and so does who computed how fast: a step may begin while answers
/// are still on their way.
void Servers::begin_turn() {
  std::int64_t turn = std::max(turn_ + 1, answered_);
  if (script_) {
    if (script_->ended()) script_->depart("it goes on beyond the order's end");
    turn = script_->next().number;
    if (turn <= turn_) script_->depart(fmt::format("turn {} follows turn {}", turn, turn_));
    script_->pass();
  }
  turn_ = turn;
  chronicle_.note({Act::Kind::Turn, Act::kNoUnit, group_.rank(), turn_});
}

Servers::Line& Servers::line(std::uint32_t unit) {
  Line& line = lines_[unit];
  line.versions.resize(static_cast<std::size_t>(roles_.servers()), first_version_);
  return line;
}

task::Task<void> Servers::hand_in(Leg leg, const tensor::Arena& values, ServerWire::Kind kind) {
  net::Transport& transport = group_.runtime().transport;
  Line& line = this->line(leg.unit);
  const std::int64_t number = kind == ServerWire::Contribution ? line.handed_in++ : line.handed_in;
  const std::vector<std::size_t> sizes = this->sizes(Wires::Contribution, leg.range);
  comm::Scratch room(group_.scratch(), room_for(sizes), values.bytes(leg.range));
  const std::vector<View> wires = wires_in(room.bytes(), sizes);
  const bool coded = !wires.empty();
  if (coded && kind == ServerWire::Contribution) {
    auto encoding = encode(leg, &values, wires);
    co_await encoding;
  }
  std::deque<Head> heads;
  std::deque<net::SendOp> sends;
  // Each worker begins with another server, so that they don't all queue at one link.
  for (int i = 0; i < roles_.servers(); ++i) {
    const int server = (group_.rank() + i) % roles_.servers();
    const auto s = static_cast<std::size_t>(server);
    const Rank peer = group_.global(roles_.member_of_server(server));
    heads.push_back({kind, clock_, line.versions[s], samples_, mean_over_, number, leg.round});
    sends.emplace_back(transport, peer, ServerWire::tag(group_, leg.unit, line.use, ServerWire::HandedInHead),
                       bytes_of(std::as_const(heads.back())), DType::Int64);
    sends.emplace_back(transport, peer, ServerWire::tag(group_, leg.unit, line.use, ServerWire::HandedIn),
                       coded ? ConstView(wires[s]) : values.bytes(roles_.part_of(leg.range, server)),
                       coded ? DType::UInt8 : values.type());
  }
  auto sent = settled(group_, &sends);
  co_await sent;
}

task::Task<double> Servers::reduce(Leg leg, const tensor::Arena& values) {
  if (!roles_.works(group_.rank())) co_return 1;
  comm::Recorded recorded(group_, "hand in", {values.bytes(leg.range), values.type(), leg.unit, leg.lane});
  auto handing = hand_in(leg, values, ServerWire::Contribution);
  co_await handing;
  co_return 1;
}

task::Task<void> Servers::spread(Leg leg, const tensor::Arena& values) {
  if (!roles_.works(group_.rank())) co_return;
  comm::Recorded recorded(group_, "answer", {values.bytes(leg.range), values.type(), leg.unit, leg.lane});
  net::Transport& transport = group_.runtime().transport;
  Line& line = this->line(leg.unit);
  const bool asked = this->asked(leg.range);
  if (asked) {
    auto responding = respond(leg, &values);
    co_await responding;
  }
  const std::vector<std::size_t> sizes = this->sizes(Wires::Answer, leg.range);
  comm::Scratch room(group_.scratch(), room_for(sizes), values.bytes(leg.range));
  const std::vector<View> wires = wires_in(room.bytes(), sizes);
  const bool coded = !wires.empty();
  std::deque<Head> heads;
  std::deque<net::RecvOp> receives;
  for (int server = 0; server < roles_.servers(); ++server) {
    const Rank peer = group_.global(roles_.member_of_server(server));
    receives.emplace_back(transport, peer,
                          ServerWire::tag(group_, leg.unit, line.use, ServerWire::AnswerHead),
                          bytes_of(heads.emplace_back()), DType::Int64);
    receives.emplace_back(
        transport, peer, ServerWire::tag(group_, leg.unit, line.use, ServerWire::Answer),
        coded ? wires[static_cast<std::size_t>(server)] : values.bytes(roles_.part_of(leg.range, server)),
        coded ? DType::UInt8 : values.type());
  }
  auto received = settled(group_, &receives);
  co_await received;
  for (std::size_t server = 0; server < heads.size(); ++server) {
    line.versions[server] = heads[server][ServerWire::Version];
    answered_ = std::max(answered_, heads[server][ServerWire::CommonClock]);
  }
  ++line.use;
  if (!coded) co_return;
  auto decoding = asked ? take_over(leg, &values, wires) : decode(leg, &values, wires);
  co_await decoding;
}

task::Task<void> Servers::tell(ServerWire::Kind kind) {
  if (!roles_.works(group_.rank())) co_return;
  net::Transport& transport = group_.runtime().transport;
  const Head said{kind, clock_};
  std::deque<Head> heard;
  std::deque<net::SendOp> sends;
  std::deque<net::RecvOp> receives;
  for (int server = 0; server < roles_.servers(); ++server) {
    const Rank peer = group_.global(roles_.member_of_server(server));
    receives.emplace_back(transport, peer,
                          ServerWire::tag(group_, kServerControlUnit, told_, ServerWire::ControlDone),
                          bytes_of(heard.emplace_back()), DType::Int64);
    sends.emplace_back(transport, peer,
                       ServerWire::tag(group_, kServerControlUnit, told_, ServerWire::Control),
                       bytes_of(said), DType::Int64);
  }
  ++told_;
  auto received = settled(group_, &receives);
  co_await received;
  auto sent = settled(group_, &sends);
  co_await sent;
}

task::Task<void> Servers::close(std::vector<Range> units, const tensor::Arena* values) {
  if (!roles_.works(group_.rank())) co_return;
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    auto handing =
        hand_in({static_cast<std::uint32_t>(unit), 0, units[unit], {}, 0}, *values, ServerWire::Close);
    co_await handing;
  }
  auto telling = tell(ServerWire::Close);
  co_await telling;
}

std::unique_ptr<Topology> make_servers(comm::Communicator& group, TopologyContext context) {
  return std::make_unique<Servers>(group, context);
}

}  // namespace taxon::exchange
