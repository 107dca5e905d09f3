#include "exchange/server/server_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "comm/in_flight.h"
#include "comm/paths.h"
#include "comm/scratch.h"
#include "comm/told.h"
#include "comm/trace_scope.h"

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
  return comm::settle(group.runtime().pending(), std::move(waiting));
}

}  // namespace

net::Tag ServerWire::tag(const comm::Communicator& group, std::uint32_t unit, std::uint32_t context,
                         Message message) {
  net::Tag tag = group.tag(net::Operation::Serve, unit);
  tag.sequence = context;
  tag.round = message;
  return tag;
}

ServerClient::ServerClient(comm::Communicator& group, TopologyContext context)
    : group_(group), roles_{group.size(), context.servers}, log_(context.log), coders_(context) {
  if (log_.follow) replay_.emplace("turns", *log_.follow, AsyncEvent::Role::Worker, AsyncEvent::kNoUnit);
  if (!roles_.works(group.rank())) return;
  net::Transport& transport = group.runtime().transport;
  for (int server = 0; server < roles_.servers(); ++server)
    shares_.push_back(transport.path(group.global(roles_.member_of_server(server))).shared_memory);
  written_.resize(shares_.size());
  came_.resize(shares_.size());
  if (std::count(shares_.begin(), shares_.end(), true) > 0)
    signal_ = transport.allot_signals(static_cast<std::uint32_t>(shares_.size()));
}

bool ServerClient::places(Range range, int server) const {
  return shares_[static_cast<std::size_t>(server)] && sizes(Wires::Contribution, range).empty() &&
         sizes(Wires::Answer, range).empty();
}

/// Which answers have come by now decides, and so does who computed how fast: a step may begin while answers
/// are still on their way.
void ServerClient::begin_turn() {
  std::int64_t turn = std::max(turn_ + 1, answered_);
  if (replay_) {
    if (replay_->ended()) replay_->depart("it goes on beyond the order's end");
    turn = replay_->next().number;
    if (turn <= turn_) replay_->depart(fmt::format("turn {} follows turn {}", turn, turn_));
    replay_->pass();
  }
  turn_ = turn;
  log_.note({AsyncEvent::Kind::Turn, AsyncEvent::kNoUnit, group_.rank(), turn_});
}

ServerClient::Line& ServerClient::line(std::uint32_t unit) {
  Line& line = lines_[unit];
  line.versions.resize(static_cast<std::size_t>(roles_.servers()), first_version_);
  line.places.resize(line.versions.size());
  line.wanted.resize(line.versions.size());
  return line;
}

task::Task<void> ServerClient::hand_in(LevelTransfer transfer, const tensor::Arena& values,
                                       ServerWire::Kind kind) {
  net::Transport& transport = group_.runtime().transport;
  Line& line = this->line(transfer.unit);
  const std::int64_t number = kind == ServerWire::Contribution ? line.handed_in++ : line.handed_in;
  const std::vector<std::size_t> sizes = this->sizes(Wires::Contribution, transfer.range);
  comm::Scratch room(group_.scratch(), room_for(sizes), values.bytes(transfer.range));
  const std::vector<View> wires = wires_in(room.bytes(), sizes);
  const bool coded = !wires.empty();
  if (coded && kind == ServerWire::Contribution) {
    auto encoding = encode(transfer, &values, wires);
    co_await encoding;
  } else if (coders_.contributions && kind == ServerWire::Contribution) {
    auto passing = coders_.contributions->pass(group_, transfer, values);
    co_await passing;
  }
  line.from = &values, line.range = transfer.range;
  std::deque<Head> heads;
  std::deque<ServerWire::Told> told;
  std::deque<RemoteWindow> places;
  std::deque<net::SendOp> sends;
  std::deque<net::PutOp> puts;
  // Each worker begins with another server, so that they don't all queue at one link.
  for (int i = 0; i < roles_.servers(); ++i) {
    const int server = (group_.rank() + i) % roles_.servers();
    const auto s = static_cast<std::size_t>(server);
    const Rank peer = group_.global(roles_.member_of_server(server));
    const net::Tag head_tag = ServerWire::tag(group_, transfer.unit, line.context, ServerWire::HandedInHead);
    const net::Tag tag = ServerWire::tag(group_, transfer.unit, line.context, ServerWire::HandedIn);
    const Range part = roles_.part_of(transfer.range, server);
    const View bytes = values.bytes(part);
    Head head{kind, clock_, line.versions[s], samples_, mean_over_, number, transfer.round};
    if (!this->places(transfer.range, server)) {
      heads.push_back(head);
      sends.emplace_back(transport, peer, head_tag, bytes_of(std::as_const(heads.back())), DType::Int64);
      sends.emplace_back(transport, peer, tag, coded ? ConstView(wires[s]) : bytes,
                         coded ? DType::UInt8 : values.type());
      continue;
    }
    ServerWire::Told& says = told.emplace_back();
    if (kind == ServerWire::Contribution) {
      if (transfer.lasts)
        says.place = describe_window(values, part, signal_ + static_cast<std::uint32_t>(server));
      line.wanted[s] = says.place.packed > 0;
      if (line.places[s]) {
        const RemoteWindow& to = places.emplace_back(std::exchange(line.places[s], {}));
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

task::Task<double> ServerClient::reduce(LevelTransfer transfer, const tensor::Arena& values) {
  if (!roles_.works(group_.rank())) co_return 1;
  comm::TraceScope recorded(group_, "hand in",
                            {values.bytes(transfer.range), values.type(), transfer.unit, transfer.lane});
  auto handing = hand_in(transfer, values, ServerWire::Contribution);
  co_await handing;
  co_return 1;
}

task::Task<void> ServerClient::spread(LevelTransfer transfer, const tensor::Arena& values) {
  if (!roles_.works(group_.rank())) co_return;
  comm::TraceScope recorded(group_, "answer",
                            {values.bytes(transfer.range), values.type(), transfer.unit, transfer.lane});
  net::Transport& transport = group_.runtime().transport;
  Line& line = this->line(transfer.unit);
  const bool asked = this->asked(transfer.range);
  if (asked) {
    auto responding = respond(transfer, &values);
    co_await responding;
  }
  const std::vector<std::size_t> sizes = this->sizes(Wires::Answer, transfer.range);
  comm::Scratch room(group_.scratch(), room_for(sizes), values.bytes(transfer.range));
  const std::vector<View> wires = wires_in(room.bytes(), sizes);
  const bool coded = !wires.empty();
  std::vector<Head> heads(static_cast<std::size_t>(roles_.servers()));
  std::vector<ServerWire::Told> told(heads.size());
  std::deque<net::RecvOp> receives;
  for (int server = 0; server < roles_.servers(); ++server) {
    const auto s = static_cast<std::size_t>(server);
    const Rank peer = group_.global(roles_.member_of_server(server));
    const net::Tag tag = ServerWire::tag(group_, transfer.unit, line.context, ServerWire::AnswerHead);
    if (places(transfer.range, server)) {
      receives.emplace_back(transport, peer, tag, bytes_of(told[s]), DType::UInt8);
      continue;
    }
    receives.emplace_back(transport, peer, tag, bytes_of(heads[s]), DType::Int64);
    receives.emplace_back(transport, peer,
                          ServerWire::tag(group_, transfer.unit, line.context, ServerWire::Answer),
                          coded ? wires[s] : values.bytes(roles_.part_of(transfer.range, server)),
                          coded ? DType::UInt8 : values.type());
  }
  auto received = settled(group_, &receives);
  co_await received;
  for (int server = 0; server < roles_.servers(); ++server) {
    const auto s = static_cast<std::size_t>(server);
    if (places(transfer.range, server)) heads[s] = told[s].head;
    check(line, server, heads[s]);
  }
  auto taking = take_placed(transfer, &values, &told);
  co_await taking;
  for (std::size_t server = 0; server < heads.size(); ++server) {
    const Head& head = heads[server];
    line.versions[server] = head[ServerWire::Version];
    answered_ = std::max(answered_, head[ServerWire::CommonClock]);
  }
  ++line.context;
  if (!coded) co_return;
  auto decoding = asked ? take_over(transfer, &values, wires) : decode(transfer, &values, wires);
  co_await decoding;
}

void ServerClient::check(const Line& line, int server, const Head& head) const {
  const std::int64_t clock = head[ServerWire::CommonClock], version = head[ServerWire::Version];
  const std::int64_t before = line.versions[static_cast<std::size_t>(server)];
  if (comm::is_count(clock) && comm::is_count(version) && version >= before) return;
  throw comm::told_wrong(group_.global(roles_.member_of_server(server)), "answer",
                         fmt::format("clock {} and version {} after version {}", clock, version, before));
}

/// Where the next contribution may go, and that the answer is where this rank wants it.
void ServerClient::believe(LevelTransfer transfer, Line& line, int server, const ServerWire::Told& told) {
  const auto s = static_cast<std::size_t>(server);
  const Rank peer = group_.global(roles_.member_of_server(server));
  const auto written = static_cast<std::uint64_t>(told.head[ServerWire::AnswerWritten]);
  // At most one answer of each unit is on its way.
  if (written > came_[s] + lines_.size() || (written > 0 && !line.wanted[s]))
    throw comm::told_wrong(
        peer, "answer",
        fmt::format("{} answers written into place here, where {} came before", written, came_[s]));
  const std::size_t bytes = roles_.part_of(transfer.range, server).size * size_of(line.from->type());
  line.places[s] = RemoteWindow(told.place, peer, bytes, group_.runtime().transport.signals());
}

/// The rest of an answer whose head has come: what was written into place, and messages where it was not.
task::Task<void> ServerClient::take_placed(LevelTransfer transfer, const tensor::Arena* values,
                                           std::vector<ServerWire::Told>* told) {
  net::Transport& transport = group_.runtime().transport;
  Line& line = this->line(transfer.unit);
  for (int server = 0; server < roles_.servers(); ++server)  // before anything is on its way
    if (places(transfer.range, server))
      believe(transfer, line, server, (*told)[static_cast<std::size_t>(server)]);
  std::deque<net::RecvOp> receives;
  std::deque<net::AwaitSignalOp> writes;
  for (int server = 0; server < roles_.servers(); ++server) {
    if (!places(transfer.range, server)) continue;
    const auto s = static_cast<std::size_t>(server);
    const Rank peer = group_.global(roles_.member_of_server(server));
    const net::Tag tag = ServerWire::tag(group_, transfer.unit, line.context, ServerWire::Answer);
    const auto written = static_cast<std::uint64_t>((*told)[s].head[ServerWire::AnswerWritten]);
    if (written == 0) {
      receives.emplace_back(transport, peer, tag, values->bytes(roles_.part_of(transfer.range, server)),
                            values->type());
      continue;
    }
    ++came_[s];
    writes.emplace_back(transport, peer, tag, signal_ + static_cast<std::uint32_t>(server), written);
  }
  auto came = settled(group_, &writes, &receives);
  co_await came;
  if (line.from == values && line.range == transfer.range) co_return;
  for (int server = 0; server < roles_.servers(); ++server) {
    if (!places(transfer.range, server) ||
        (*told)[static_cast<std::size_t>(server)].head[ServerWire::AnswerWritten] == 0)
      continue;
    auto copied =
        copy(transfer, values, roles_.part_of(line.range, server), roles_.part_of(transfer.range, server));
    co_await copied;
  }
}

/// From what was handed in, where an answer was written, to where it is wanted.
task::Task<void> ServerClient::copy(LevelTransfer transfer, const tensor::Arena* values, Range from,
                                    Range to) {
  comm::Runtime& runtime = group_.runtime();
  tensor::Kernel kernel{
      "answer",
      {0, 2 * values->bytes(to).size()},
      [source = line(transfer.unit).from->bytes(from), target = values->bytes(to)](tensor::Milestones&) {
        if (!target.empty()) std::memcpy(target.data(), source.data(), target.size());
      }};
  auto done = tensor::run(runtime.device, runtime.pending(), tensor::Stream::Exchange, std::move(kernel));
  co_await done;
}

std::string ServerClient::paths() const {
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

task::Task<void> ServerClient::tell(ServerWire::Kind kind) {
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

task::Task<void> ServerClient::close(std::vector<Range> units, const tensor::Arena* values) {
  if (!roles_.works(group_.rank())) co_return;
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    auto handing =
        hand_in({static_cast<std::uint32_t>(unit), 0, units[unit], {}, 0}, *values, ServerWire::Close);
    co_await handing;
  }
  auto telling = tell(ServerWire::Close);
  co_await telling;
}

}  // namespace taxon::exchange
