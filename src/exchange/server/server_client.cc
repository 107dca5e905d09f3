#include "exchange/server/server_client.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/kernels.h"
#include "comm/paths.h"
#include "comm/told.h"
#include "comm/trace_scope.h"
#include "task/scope.h"

namespace taxon::exchange {
namespace {

/// Room for wires of these bytes, one after the other; none for none.
class WireRoom {
 public:
  WireRoom(comm::ScratchPool& scratch, const std::vector<std::size_t>& sizes, View beside)
      : room_(scratch, total(sizes), beside) {
    std::size_t begin = 0;
    for (std::size_t bytes : sizes) {
      wires.push_back(room_.bytes().slice(begin, bytes));
      begin += round_to_line(bytes);
    }
  }

 private:
  static std::size_t total(const std::vector<std::size_t>& sizes) {
    std::size_t bytes = 0;
    for (std::size_t size : sizes) bytes += round_to_line(size);
    return bytes;
  }
  comm::Scratch room_;

 public:
  std::vector<View> wires;
};

task::Task<void> tell_server(Channel* server, ServerWire::Head said) {
  co_await server->say(ServerWire::Control, as_const_view(std::span<const std::int64_t>(said)), DType::Int64);
  co_await server->hear(ServerWire::ControlDone, as_view(std::span<std::int64_t>(said)), DType::Int64);
  server->next_use();
}

}  // namespace

ServerClient::ServerClient(comm::Communicator& group, TopologyContext context)
    : group_(group), roles_{group.size(), context.servers}, log_(context.log), coders_(context) {
  if (log_.follow) replay_.emplace("turns", *log_.follow, AsyncEvent::Role::Worker, AsyncEvent::kNoUnit);
  if (!roles_.works(group.rank())) return;
  net::Transport& transport = group.runtime().transport;
  bool shares = false;
  for (int server = 0; server < roles_.servers(); ++server) {
    const int member = roles_.member_of_server(server);
    servers_.push_back({member, transport.path(group.global(member)).shared_memory});
    shares = shares || servers_.back().shares_memory;
  }
  std::uint32_t signal = shares ? transport.allot_signals(static_cast<std::uint32_t>(servers_.size())) : 0;
  for (ChannelPeer& server : servers_) {
    server.signal = signal++;
    controls_.push_back(std::make_unique<Channel>(group, server.member, kServerControlUnit));
  }
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

ServerClient::Line& ServerClient::line(const LevelTransfer& transfer) {
  auto [found, first] = lines_.try_emplace(transfer.unit);
  Line& line = found->second;
  if (!first) return line;
  const bool direct =
      sizes(Wires::Contribution, transfer.range).empty() && sizes(Wires::Answer, transfer.range).empty();
  for (ChannelPeer& server : servers_) {
    line.servers.push_back(std::make_unique<ValueChannel>(group_, server, transfer.unit, direct,
                                                          ServerWire::kContributions, ServerWire::kAnswers));
    line.answers.push_back({0, first_version_});
  }
  return line;
}

task::Task<void> ServerClient::hand_in(LevelTransfer transfer, const tensor::Arena& values,
                                       ServerWire::Kind kind) {
  const bool counts = kind == ServerWire::Contribution;
  Line& line = this->line(transfer);
  const WireRoom room(group_.scratch(), sizes(Wires::Contribution, transfer.range),
                      values.bytes(transfer.range));
  const bool coded = !room.wires.empty();
  if (coded && counts) {
    co_await encode(transfer, &values, room.wires);
  } else if (coders_.contributions && counts) {
    co_await coders_.contributions->pass(group_, transfer, values);
  }
  line.from = &values, line.range = transfer.range;
  const std::int64_t number = line.handed_in;
  line.handed_in += counts;
  task::Scope sends(group_.runtime().pending());
  // Each worker begins with another server, so that they don't all queue at one link.
  for (int i = 0; i < roles_.servers(); ++i) {
    const int server = (group_.rank() + i) % roles_.servers();
    const auto s = static_cast<std::size_t>(server);
    ValueChannel& channel = *line.servers[s];
    const Range part = roles_.part_of(transfer.range, server);
    const Head head{kind,   clock_,        line.answers[s][ServerWire::Version], samples_, mean_over_,
                    number, transfer.round};
    const ConstView bytes = coded ? room.wires[s] : values.bytes(part);
    const DType type = coded ? DType::UInt8 : values.type();
    WindowDescriptor wanted;
    if (channel.placed() && transfer.lasts) wanted = describe_window(values, part, servers_[s].signal);
    sends.spawn(counts ? channel.send(head, bytes, type, wanted) : channel.send_last(head, bytes, type));
  }
  co_await sends.join();
}

task::Task<double> ServerClient::reduce(LevelTransfer transfer, const tensor::Arena& values) {
  if (!roles_.works(group_.rank())) co_return 1;
  comm::TraceScope recorded(group_, "hand in",
                            {values.bytes(transfer.range), values.type(), transfer.unit, transfer.lane});
  co_await hand_in(transfer, values, ServerWire::Contribution);
  co_return 1;
}

task::Task<void> ServerClient::spread(LevelTransfer transfer, const tensor::Arena& values) {
  if (!roles_.works(group_.rank())) co_return;
  comm::TraceScope recorded(group_, "answer",
                            {values.bytes(transfer.range), values.type(), transfer.unit, transfer.lane});
  Line& line = this->line(transfer);
  const bool asked = this->asked(transfer.range);
  if (asked) {
    co_await respond(transfer, &values);
  }
  const WireRoom room(group_.scratch(), sizes(Wires::Answer, transfer.range), values.bytes(transfer.range));
  const bool coded = !room.wires.empty();
  task::Scope answers(group_.runtime().pending());
  for (int server = 0; server < roles_.servers(); ++server)
    answers.spawn(take_answer(transfer, &values,
                              coded ? room.wires[static_cast<std::size_t>(server)]
                                    : values.bytes(roles_.part_of(transfer.range, server)),
                              coded ? DType::UInt8 : values.type(), server));
  co_await answers.join();
  for (const Head& answer : line.answers) answered_ = std::max(answered_, answer[ServerWire::CommonClock]);
  for (auto& channel : line.servers) channel->next_use();
  if (!coded) co_return;
  auto decoding = asked ? take_over(transfer, &values, room.wires) : decode(transfer, &values, room.wires);
  co_await decoding;
}

task::Task<void> ServerClient::take_answer(LevelTransfer transfer, const tensor::Arena* values, View into,
                                           DType type, int server) {
  Line& line = this->line(transfer);
  const auto s = static_cast<std::size_t>(server);
  ValueChannel& channel = *line.servers[s];
  const Head head = co_await channel.receive(into, type);
  check(line, server, head);
  line.answers[s] = head;
  const bool in_place = channel.read_credit(into.size());
  co_await channel.receive_values(into, type);
  if (!in_place || (line.from == values && line.range == transfer.range)) co_return;
  // It lies where the contribution was handed in from.
  const View source = line.from->bytes(roles_.part_of(line.range, server));
  comm::ExchangeKernel copy(group_, comm::copy_kernel(into, source));
  co_await copy.finished();
}

void ServerClient::check(const Line& line, int server, const Head& head) const {
  const std::int64_t clock = head[ServerWire::CommonClock], version = head[ServerWire::Version];
  const std::int64_t before = line.answers[static_cast<std::size_t>(server)][ServerWire::Version];
  if (comm::is_count(clock) && comm::is_count(version) && version >= before) return;
  throw comm::told_wrong(group_.global(roles_.member_of_server(server)), "answer",
                         fmt::format("clock {} and version {} after version {}", clock, version, before));
}

std::string ServerClient::paths() const {
  if (!roles_.works(group_.rank())) return {};
  const bool coded = coders_.contributions || coders_.answers;
  std::vector<Rank> written, sent;
  for (int server = 0; server < roles_.servers(); ++server) {
    const bool placed = servers_[static_cast<std::size_t>(server)].shares_memory && !coded;
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
  const Head said{kind, clock_};
  task::Scope servers(group_.runtime().pending());
  for (auto& server : controls_) servers.spawn(tell_server(server.get(), said));
  co_await servers.join();
}

task::Task<void> ServerClient::close(std::vector<Range> units, const tensor::Arena* values) {
  if (!roles_.works(group_.rank())) co_return;
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    auto handing =
        hand_in({static_cast<std::uint32_t>(unit), 0, units[unit], {}, 0}, *values, ServerWire::Close);
    co_await handing;
  }
  co_await tell(ServerWire::Close);
}

}  // namespace taxon::exchange
