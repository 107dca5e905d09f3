#include "exchange/servers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "comm/in_flight.h"
#include "comm/paths.h"
#include "comm/recorded.h"
#include "comm/scratch.h"
#include "comm/told.h"

namespace taxon::exchange {
namespace {

using Head = ServerWire::Head;

View bytes_of(Head& head) { return as_view(std::span<std::int64_t>(head)); }
ConstView bytes_of(const Head& head) { return as_const_view(std::span<const std::int64_t>(head)); }
View bytes_of(ServerWire::Told& told) { return as_view(std::span<ServerWire::Told>(&told, 1)); }
ConstView bytes_of(const ServerWire::Told& told) {
  return as_const_view(std::span<const ServerWire::Told>(&told, 1));
}

template <class Op>
task::Task<void> await_all(std::deque<Op>* ops) {
  for (Op& op : *ops) co_await op;
}
template <class First, class Second>
task::Task<void> await_all(std::deque<First>* first, std::deque<Second>* second) {
  for (First& op : *first) co_await op;
  for (Second& op : *second) co_await op;
}

/// Waits for operations that the caller's frame owns; when one fails, the network lets go of all first.
template <class... Ops>
task::Task<void> settled(comm::Communicator& group, std::deque<Ops>*... ops) {
  auto waiting = await_all(ops...);
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
  if (!roles_.works(group.rank())) return;
  net::Transport& transport = group.runtime().transport;
  for (int server = 0; server < roles_.servers(); ++server)
    shares_.push_back(transport.path(group.global(roles_.member_of_server(server))).shared_memory);
  written_.resize(shares_.size());
  came_.resize(shares_.size());
  if (std::count(shares_.begin(), shares_.end(), true) > 0)
    signal_ = transport.allot_signals(static_cast<std::uint32_t>(shares_.size()));
}

bool Servers::places(Range range, int server) const {
  return shares_[static_cast<std::size_t>(server)] && sizes(Wires::Contribution, range).empty() &&
         sizes(Wires::Answer, range).empty();
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
  line.places.resize(line.versions.size());
  line.wanted.resize(line.versions.size());
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
  } else if (coders_.contributions && kind == ServerWire::Contribution) {
    auto passing = coders_.contributions->pass(group_, leg, values);
    co_await passing;
  }
  line.from = &values, line.range = leg.range;
  std::deque<Head> heads;
  std::deque<ServerWire::Told> told;
  std::deque<Place> places;
  std::deque<net::SendOp> sends;
  std::deque<net::PutOp> puts;
  // Each worker begins with another server, so that they don't all queue at one link.
  for (int i = 0; i < roles_.servers(); ++i) {
    const int server = (group_.rank() + i) % roles_.servers();
    const auto s = static_cast<std::size_t>(server);
    const Rank peer = group_.global(roles_.member_of_server(server));
    const net::Tag head_tag = ServerWire::tag(group_, leg.unit, line.use, ServerWire::HandedInHead);
    const net::Tag tag = ServerWire::tag(group_, leg.unit, line.use, ServerWire::HandedIn);
    const Range part = roles_.part_of(leg.range, server);
    const View bytes = values.bytes(part);
    Head head{kind, clock_, line.versions[s], samples_, mean_over_, number, leg.round};
    if (!this->places(leg.range, server)) {
      heads.push_back(head);
      sends.emplace_back(transport, peer, head_tag, bytes_of(std::as_const(heads.back())), DType::Int64);
      sends.emplace_back(transport, peer, tag, coded ? ConstView(wires[s]) : bytes,
                         coded ? DType::UInt8 : values.type());
      continue;
    }
    ServerWire::Told& says = told.emplace_back();
    if (kind == ServerWire::Contribution) {
      if (leg.lasts) says.place = tell_place(values, part, signal_ + static_cast<std::uint32_t>(server));
      line.wanted[s] = says.place.packed > 0;
      if (line.places[s]) {
        const Place& to = places.emplace_back(std::exchange(line.places[s], {}));
        head[ServerWire::Written] = static_cast<std::int64_t>(++written_[s]);
        puts.emplace_back(transport, bytes, &to.region(), to.offset(), to.signal(), written_[s]);
      } else {
        sends.emplace_back(transport, peer, tag, bytes, values.type());
      }
    }
    says.head = head;
    sends.emplace_back(transport, peer, head_tag, bytes_of(std::as_const(says)), DType::UInt8);
  }
  auto sent = settled(group_, &puts, &sends);
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
  std::vector<Head> heads(static_cast<std::size_t>(roles_.servers()));
  std::vector<ServerWire::Told> told(heads.size());
  std::deque<net::RecvOp> receives;
  for (int server = 0; server < roles_.servers(); ++server) {
    const auto s = static_cast<std::size_t>(server);
    const Rank peer = group_.global(roles_.member_of_server(server));
    const net::Tag tag = ServerWire::tag(group_, leg.unit, line.use, ServerWire::AnswerHead);
    if (places(leg.range, server)) {
      receives.emplace_back(transport, peer, tag, bytes_of(told[s]), DType::UInt8);
      continue;
    }
    receives.emplace_back(transport, peer, tag, bytes_of(heads[s]), DType::Int64);
    receives.emplace_back(transport, peer, ServerWire::tag(group_, leg.unit, line.use, ServerWire::Answer),
                          coded ? wires[s] : values.bytes(roles_.part_of(leg.range, server)),
                          coded ? DType::UInt8 : values.type());
  }
  auto received = settled(group_, &receives);
  co_await received;
  for (int server = 0; server < roles_.servers(); ++server) {
    const auto s = static_cast<std::size_t>(server);
    if (places(leg.range, server)) heads[s] = told[s].head;
    check(line, server, heads[s]);
  }
  auto taking = take_placed(leg, &values, &told);
  co_await taking;
  for (std::size_t server = 0; server < heads.size(); ++server) {
    const Head& head = heads[server];
    line.versions[server] = head[ServerWire::Version];
    answered_ = std::max(answered_, head[ServerWire::CommonClock]);
  }
  ++line.use;
  if (!coded) co_return;
  auto decoding = asked ? take_over(leg, &values, wires) : decode(leg, &values, wires);
  co_await decoding;
}

void Servers::check(const Line& line, int server, const Head& head) const {
  const std::int64_t clock = head[ServerWire::CommonClock], version = head[ServerWire::Version];
  const std::int64_t before = line.versions[static_cast<std::size_t>(server)];
  if (comm::is_count(clock) && comm::is_count(version) && version >= before) return;
  throw comm::told_wrong(group_.global(roles_.member_of_server(server)), "answer",
                         fmt::format("clock {} and version {} after version {}", clock, version, before));
}

/// Where the next contribution may go, and that the answer is where this rank wants it.
void Servers::believe(Leg leg, Line& line, int server, const ServerWire::Told& told) {
  const auto s = static_cast<std::size_t>(server);
  const Rank peer = group_.global(roles_.member_of_server(server));
  const auto written = static_cast<std::uint64_t>(told.head[ServerWire::AnswerWritten]);
  // At most one answer of each unit is on its way.
  if (written > came_[s] + lines_.size() || (written > 0 && !line.wanted[s]))
    throw comm::told_wrong(
        peer, "answer",
        fmt::format("{} answers written into place here, where {} came before", written, came_[s]));
  const std::size_t bytes = roles_.part_of(leg.range, server).size * size_of(line.from->type());
  line.places[s] = Place(told.place, peer, bytes, group_.runtime().transport.signals());
}

/// The rest of an answer whose head has come: what was written into place, and messages where it was not.
task::Task<void> Servers::take_placed(Leg leg, const tensor::Arena* values,
                                      std::vector<ServerWire::Told>* told) {
  net::Transport& transport = group_.runtime().transport;
  Line& line = this->line(leg.unit);
  for (int server = 0; server < roles_.servers(); ++server)  // before anything is on its way
    if (places(leg.range, server)) believe(leg, line, server, (*told)[static_cast<std::size_t>(server)]);
  std::deque<net::RecvOp> receives;
  std::deque<net::AwaitSignalOp> writes;
  for (int server = 0; server < roles_.servers(); ++server) {
    if (!places(leg.range, server)) continue;
    const auto s = static_cast<std::size_t>(server);
    const Rank peer = group_.global(roles_.member_of_server(server));
    const net::Tag tag = ServerWire::tag(group_, leg.unit, line.use, ServerWire::Answer);
    const auto written = static_cast<std::uint64_t>((*told)[s].head[ServerWire::AnswerWritten]);
    if (written == 0) {
      receives.emplace_back(transport, peer, tag, values->bytes(roles_.part_of(leg.range, server)),
                            values->type());
      continue;
    }
    ++came_[s];
    writes.emplace_back(transport, peer, tag, signal_ + static_cast<std::uint32_t>(server), written);
  }
  auto came = settled(group_, &writes, &receives);
  co_await came;
  if (line.from == values && line.range == leg.range) co_return;
  for (int server = 0; server < roles_.servers(); ++server) {
    if (!places(leg.range, server) ||
        (*told)[static_cast<std::size_t>(server)].head[ServerWire::AnswerWritten] == 0)
      continue;
    auto copied = copy(leg, values, roles_.part_of(line.range, server), roles_.part_of(leg.range, server));
    co_await copied;
  }
}

/// From what was handed in, where an answer was written, to where it is wanted.
task::Task<void> Servers::copy(Leg leg, const tensor::Arena* values, Range from, Range to) {
  comm::Runtime& runtime = group_.runtime();
  tensor::Kernel kernel{
      "answer",
      {0, 2 * values->bytes(to).size()},
      [source = line(leg.unit).from->bytes(from), target = values->bytes(to)](tensor::Marks&) {
        if (!target.empty()) std::memcpy(target.data(), source.data(), target.size());
      }};
  auto done = tensor::run(runtime.device, runtime.waits(), tensor::Lane::Exchange, std::move(kernel));
  co_await done;
}

std::string Servers::paths() const {
  if (!roles_.works(group_.rank())) return {};
  const bool coded = coders_.contributions || coders_.answers;
  std::vector<Rank> written, sent;
  for (int server = 0; server < roles_.servers(); ++server) {
    const bool placed = shares_[static_cast<std::size_t>(server)] && !coded;
    (placed ? written : sent).push_back(group_.global(roles_.member_of_server(server)));
  }
  std::vector<std::string> ways;
  if (!written.empty()) ways.push_back("written into place at " + comm::describe_ranks(written));
  if (!sent.empty())
    ways.push_back(fmt::format("messages to {} ({})", comm::describe_ranks(sent),
                               comm::describe_paths(group_.runtime().transport, sent)));
  return fmt::format("values to and from servers: {}", fmt::join(ways, "; "));
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
