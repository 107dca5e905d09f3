// What a server and a worker that share memory do in place of messages: each writes values to where the other
// uses them. Who hands in tells where the answer may go, since what it handed in has been taken from there;
// who answers tells where the next contribution may go, if the last one is not waiting there for an update.
// That is the credit: nothing is written over that is in use.
#include <fmt/format.h>

#include "comm/failure_monitor.h"
#include "comm/told.h"
#include "exchange/server/parameter_server.h"

namespace taxon::exchange {
namespace {

View bytes_of(ServerWire::Told& told) { return as_view(std::span<ServerWire::Told>(&told, 1)); }

}  // namespace

void ParameterServer::prepare_places() {
  const int workers = setup_.roles.workers();
  std::size_t total = 0;
  for (int worker = 0; worker < workers; ++worker) {
    shares_.push_back(runtime_.transport.path(setup_.group->global(worker)).shared_memory);
    if (!shares_.back()) continue;
    for (auto& unit : units_) {
      if (!unit->direct()) continue;
      unit->slots[static_cast<std::size_t>(worker)].place_range = {total, unit->range.size};
      const std::size_t line = tensor::ArenaLayout::kAlignment / size_of(setup_.weights->type());
      total += (unit->range.size + line - 1) / line * line;
    }
  }
  written_.resize(shares_.size());
  came_.resize(shares_.size());
  if (total == 0) return;
  signal_ = runtime_.transport.allot_signals(static_cast<std::uint32_t>(workers));
  try {
    places_ = tensor::Arena(runtime_.transport, setup_.weights->type(), total);
  } catch (const Error&) {
    return;  // contributions come as messages, into private memory
  }
  for (auto& unit : units_)
    for (WorkerSlot& slot : unit->slots)
      if (slot.place_range.size > 0)
        slot.place = std::make_unique<tensor::Arena>(
            tensor::Arena::over(places_.type(), places_.bytes(slot.place_range)));
}

/// Without the data if it lies in its place already.
task::Task<void> ParameterServer::receive_told(Unit* unit, int worker, ServerWire::Head* head,
                                               Contribution* into) {
  comm::Communicator& group = *setup_.group;
  const Rank peer = group.global(worker);
  const auto id = static_cast<std::uint32_t>(unit->bucket->id.value());
  const std::uint32_t context = unit->uses[static_cast<std::size_t>(worker)];
  WorkerSlot& slot = unit->slots[static_cast<std::size_t>(worker)];
  ServerWire::Told told;
  {
    net::RecvOp said(runtime_.transport, peer, ServerWire::tag(group, id, context, ServerWire::HandedInHead),
                     bytes_of(told), DType::UInt8);
    comm::GuardedOp guard(setup_.failures, runtime_.transport, said);
    co_await said;
  }
  *head = told.head;
  check(*unit, worker, told.head);
  if (told.head[ServerWire::KindOf] == ServerWire::Close) co_return;
  const tensor::Arena& weights = *setup_.weights;
  slot.wanted = RemoteWindow(told.place, peer, unit->range.size * size_of(weights.type()),
                             runtime_.transport.signals());
  const net::Tag tag = ServerWire::tag(group, id, context, ServerWire::HandedIn);
  const auto written = static_cast<std::uint64_t>(told.head[ServerWire::Written]);
  std::uint64_t& came_before = came_[static_cast<std::size_t>(worker)];
  if (written > came_before + units_.size())  // one of each unit is on its way
    throw comm::told_wrong(
        peer, "hand in",
        fmt::format("{} contributions written into place here, where {} came before", written, came_before));
  if (written == 0) {
    into->values = take(*unit);
    net::RecvOp came(runtime_.transport, peer, tag, into->values->bytes(), weights.type());
    comm::GuardedOp guard(setup_.failures, runtime_.transport, came);
    co_await came;
    co_return;
  }
  if (!slot.place)
    throw comm::told_wrong(peer, "hand in",
                           unit->bucket->name + " was written to where a contribution waits for its update");
  ++came_before;
  net::AwaitSignalOp came(runtime_.transport, peer, tag, signal_ + static_cast<std::uint32_t>(worker),
                          written);
  comm::GuardedOp guard(setup_.failures, runtime_.transport, came);
  co_await came;
  into->values = std::move(slot.place);
  into->place_of = worker;
}

/// The worker's memory, if it is where an answer is to be and can be written by this process.
View ParameterServer::place_of_answer(const WorkerSlot& slot) {
  if (setup_.owner->answers != ServerState::Answers::Values || !slot.wanted) return {};
  return slot.wanted.map(runtime_.transport);
}

task::Task<void> ParameterServer::reply_told(Unit* unit, int worker, std::uint32_t context) {
  comm::Communicator& group = *setup_.group;
  net::Transport& transport = runtime_.transport;
  const Rank peer = group.global(worker);
  const auto w = static_cast<std::size_t>(worker);
  const auto id = static_cast<std::uint32_t>(unit->bucket->id.value());
  WorkerSlot& slot = unit->slots[w];
  const net::Tag tag = ServerWire::tag(group, id, context, ServerWire::Answer);
  ServerWire::Told told;
  told.head = slot.head;
  told.head[ServerWire::AnswerWritten] = 0;
  if (slot.place)
    told.place = describe_window(places_, slot.place_range, signal_ + static_cast<std::uint32_t>(worker));
  if (slot.wanted) {
    const ConstView rest = slot.in_place ? ConstView() : slot.answer->bytes();
    if (slot.in_place && peer != runtime_.rank()) transport.count_stored(slot.answer->bytes().size());
    told.head[ServerWire::AnswerWritten] = static_cast<std::int64_t>(++written_[w]);
    net::PutOp puts(transport, rest, rest.empty() ? nullptr : &slot.wanted.region(), slot.wanted.offset(),
                    slot.wanted.signal(), written_[w]);
    comm::GuardedOp guard(setup_.failures, transport, puts);
    co_await puts;
  } else {
    net::SendOp gives(transport, peer, tag, slot.answer->bytes(), slot.answer->type());
    comm::GuardedOp guard(setup_.failures, transport, gives);
    co_await gives;
  }
  net::SendOp says(transport, peer, ServerWire::tag(group, id, context, ServerWire::AnswerHead),
                   bytes_of(told), DType::UInt8);
  comm::GuardedOp guard(setup_.failures, transport, says);
  co_await says;
  if (slot.in_place) slot.answer.reset();
  slot.in_place = false;
  slot.wanted = {};
}

std::string ParameterServer::path_of(int worker) const {
  const net::Path path = runtime_.transport.path(setup_.group->global(worker));
  const bool placed = shares_[static_cast<std::size_t>(worker)] && places_.size() > 0;
  return std::string(placed ? "written into place" : "messages") + ", through " + path.name;
}

}  // namespace taxon::exchange
