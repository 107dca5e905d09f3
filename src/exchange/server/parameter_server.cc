#include "exchange/server/parameter_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "comm/in_flight.h"
#include "comm/told.h"

namespace taxon::exchange {
namespace {

template <class Op>
task::Task<void> await_both(Op* first, Op* second) {
  co_await *first;
  co_await *second;
}

View bytes_of(ServerWire::Head& head) { return as_view(std::span<std::int64_t>(head)); }
ConstView const_bytes_of(const ServerWire::Head& head) {
  return as_const_view(std::span<const std::int64_t>(head));
}

}  // namespace

ParameterServer::ParameterServer(comm::Runtime& runtime, Setup setup)
    : runtime_(runtime), setup_(std::move(setup)), listeners_(runtime.pending()) {
  const Roles& roles = setup_.roles;
  int server = 0;
  while (roles.member_of_server(server) != setup_.group->rank()) ++server;
  std::size_t owned = 0;
  for (std::size_t b = 0; b < setup_.layout->buckets.size(); ++b) {
    const Bucket& bucket = setup_.layout->buckets[b];
    const Range range = setup_.ranges.empty() ? bucket.range : setup_.ranges[b];
    auto unit = std::make_unique<Unit>(Unit{&bucket,
                                            roles.part_of(range, server),
                                            owned,
                                            ConsistencyController(roles.workers(), setup_.numbers),
                                            {},
                                            {},
                                            0,
                                            {},
                                            0,
                                            {}});
    if (setup_.log.follow)
      unit->replay.emplace(bucket.name, *setup_.log.follow, AsyncEvent::Role::Server, bucket.id.value());
    unit->slots.resize(static_cast<std::size_t>(roles.workers()));
    owned += unit->range.size;
    unit->uses.resize(static_cast<std::size_t>(roles.workers()));
    units_.push_back(std::move(unit));
  }
  if (setup_.late) late_ = setup_.late(owned);
  prepare_codecs();
  prepare_places();
}

std::vector<Range> ParameterServer::owned() const {
  std::vector<Range> ranges;
  for (const auto& unit : units_) ranges.push_back(unit->range);
  return ranges;
}

ParameterServer::Buffer ParameterServer::take(Unit& unit) {
  if (unit.free.empty())
    return std::make_unique<tensor::Arena>(setup_.weights->type(), unit.range.size, setup_.weights->bytes());
  Buffer buffer = std::move(unit.free.back());
  unit.free.pop_back();
  return buffer;
}

ParameterServer::Buffer ParameterServer::take_contribution(Unit& unit) {
  if (!unit.asks) return take(unit);
  if (unit.free_wires.empty())
    return std::make_unique<tensor::Arena>(DType::UInt8, *unit.contribution_wire, setup_.weights->bytes());
  Buffer buffer = std::move(unit.free_wires.back());
  unit.free_wires.pop_back();
  return buffer;
}

void ParameterServer::give_back(Unit& unit, Contribution contribution) {
  if (contribution.place_of)
    unit.slots[static_cast<std::size_t>(*contribution.place_of)].place = std::move(contribution.values);
  else
    (unit.asks ? unit.free_wires : unit.free).push_back(std::move(contribution.values));
}

void ParameterServer::note(AsyncEvent::Kind kind, const Unit& unit, int worker, std::int64_t number) {
  setup_.log.note({kind, unit.bucket->id.value(), worker, number});
}

task::Task<void> ParameterServer::open() {
  for (auto& unit : units_) {
    tensor::Kernel kernel{"owner's weights",
                          {0, 2 * unit->range.size * size_of(setup_.weights->type())},
                          [this, range = unit->range, state = unit->state](tensor::Milestones&) {
                            setup_.owner->begin(*setup_.weights, range);
                            for (int worker = 0; late_ && worker < setup_.roles.workers(); ++worker)
                              late_->served(worker, *setup_.weights, {range, 0, state});
                            for (const tensor::Arena& given : given_)
                              if (range.size > 0)
                                std::memcpy(given.bytes({state, range.size}).data(),
                                            setup_.weights->bytes(range).data(), range.size * sizeof(float));
                          }};
    auto filled = run("owner's weights", std::move(kernel), unit.get());
    co_await filled;
  }
}

void ParameterServer::serve(std::int64_t version, std::int64_t samples) {
  for (auto& unit : units_) {
    unit->controller.set_out(version);
    unit->samples = samples;
  }
  for (int worker = 0; worker < setup_.roles.workers(); ++worker) {
    for (auto& unit : units_) listeners_.spawn(serve(unit.get(), worker));
    listeners_.spawn(handle_control(worker));
  }
}

task::Task<void> ParameterServer::closed() {
  co_await listeners_.join();
  for (const auto& unit : units_)
    if (unit->replay && !unit->replay->ended()) unit->replay->depart("the workers have ended");
}

task::Task<void> ParameterServer::abandon(std::exception_ptr why) {
  if (!runtime_.pending().cancelled()) runtime_.pending().cancel(why);
  try {
    co_await listeners_.join();
  } catch (...) {
  }
}

/// Waits for two operations with one worker, which the caller's frame owns.
template <class Op>
task::Task<void> ParameterServer::settled(Op* first, Op* second) {
  comm::GuardedOp one(setup_.failures, runtime_.transport, *first);
  comm::GuardedOp other(setup_.failures, runtime_.transport, *second);
  std::exception_ptr error;
  try {
    auto both = await_both<Op>(first, second);
    co_await both;
  } catch (...) {
    error = std::current_exception();
  }
  if (!error) co_return;
  // The network must have let go of both.
  if (!comm::is_expendable_loss(setup_.failures, first->peer, error)) runtime_.pending().cancel(error);
  std::rethrow_exception(error);
}

task::Task<void> ParameterServer::serve(Unit* unit, int worker) {
  std::exception_ptr error;
  try {
    auto serving = handle_request(unit, worker);
    co_await serving;
  } catch (...) {
    error = std::current_exception();
  }
  if (!error) co_return;
  if (!comm::is_expendable_loss(setup_.failures, setup_.group->global(worker), error))
    std::rethrow_exception(error);
  auto losing = lose(unit, worker);
  co_await losing;
}

task::Task<void> ParameterServer::lose(Unit* unit, int worker) {
  unit->slots[static_cast<std::size_t>(worker)].waits = false;
  unit->controller.leave(worker);
  note(AsyncEvent::Kind::Lose, *unit, worker, 0);
  const Rank rank = setup_.group->global(worker);
  if (unit->controller.present() < setup_.numbers.quorum)
    throw Error(ErrorKind::PeerLost,
                fmt::format("rank {} was lost, and the {} workers that are left make no quorum of {}",
                            rank.value(), unit->controller.present(), setup_.numbers.quorum),
                {.rank = rank});
  auto settling = settle(unit);
  co_await settling;
}

task::Task<void> ParameterServer::receive(Unit* unit, int worker, ServerWire::Head* head,
                                          const tensor::Arena* values) {
  comm::Communicator& group = *setup_.group;
  const Rank peer = group.global(worker);
  const auto id = static_cast<std::uint32_t>(unit->bucket->id.value());
  const std::uint32_t context = unit->uses[static_cast<std::size_t>(worker)];
  net::RecvOp said(runtime_.transport, peer, ServerWire::tag(group, id, context, ServerWire::HandedInHead),
                   bytes_of(*head), DType::Int64);
  net::RecvOp contribution(runtime_.transport, peer,
                           ServerWire::tag(group, id, context, ServerWire::HandedIn), values->bytes(),
                           values->type());
  auto received = settled<net::RecvOp>(&said, &contribution);
  co_await received;
}

task::Task<void> ParameterServer::reply(Unit* unit, int worker, std::uint32_t context) {
  comm::Communicator& group = *setup_.group;
  const Rank peer = group.global(worker);
  const auto id = static_cast<std::uint32_t>(unit->bucket->id.value());
  WorkerSlot& slot = unit->slots[static_cast<std::size_t>(worker)];
  net::SendOp says(runtime_.transport, peer, ServerWire::tag(group, id, context, ServerWire::AnswerHead),
                   const_bytes_of(slot.head), DType::Int64);
  net::SendOp answer(runtime_.transport, peer, ServerWire::tag(group, id, context, ServerWire::Answer),
                     slot.answer->bytes(), slot.answer->type());
  auto sent = settled<net::SendOp>(&says, &answer);
  co_await sent;
}

void ParameterServer::check(const Unit& unit, int worker, const ServerWire::Head& head) const {
  // Who is ahead of all others may have got so far elsewhere; no run goes ahead of one bucket so much.
  constexpr std::int64_t kMostAhead = 1 << 20;
  const std::int64_t kind = head[ServerWire::KindOf];
  const Rank from = setup_.group->global(worker);
  auto refuse = [&](const std::string& what) {
    throw comm::told_wrong(from, "hand in", fmt::format("{}, of {}", what, unit.bucket->name));
  };
  if (kind == ServerWire::Close) return;
  if (kind != ServerWire::Contribution) refuse(fmt::format("a head of kind {}", kind));
  const std::int64_t clock = head[ServerWire::Clock], base = head[ServerWire::Base];
  if (clock < 0 || clock > unit.controller.furthest() + kMostAhead)
    refuse(fmt::format("clock {} where {} is the furthest", clock, unit.controller.furthest()));
  if (base < 0 || base > unit.controller.version())
    refuse(fmt::format("values after {} updates of {}", base, unit.controller.version()));
  const std::int64_t number = head[ServerWire::Number];
  if (number < 0 || number > unit.controller.handed_in(worker))
    refuse(fmt::format("contribution {} after {}", number, unit.controller.handed_in(worker)));
  const std::int64_t samples = head[ServerWire::Samples], mean_over = head[ServerWire::MeanOver];
  if (!comm::is_count(samples) || !comm::is_count(mean_over) || mean_over == 0)
    refuse(fmt::format("{} samples of a mean over {}", samples, mean_over));
  if (!comm::is_count(head[ServerWire::Round])) refuse(fmt::format("round {}", head[ServerWire::Round]));
}

std::string ParameterServer::describe(const Unit& unit) const {
  const std::string events = unit.replay ? ", act " + unit.replay->where() : "";
  return unit.bucket->name + events + ", " + unit.controller.describe();
}

task::Task<void> ParameterServer::handle_request(Unit* unit, int worker) {
  const Rank peer = setup_.group->global(worker);
  WorkerSlot& slot = unit->slots[static_cast<std::size_t>(worker)];
  std::uint32_t& context = unit->uses[static_cast<std::size_t>(worker)];
  const bool coded = unit->contribution_wire.has_value() && !unit->asks;
  const tensor::Arena wire(DType::UInt8, coded ? *unit->contribution_wire : 0, setup_.weights->bytes());
  for (;; ++context) {
    Contribution contribution;
    ServerWire::Head head{};
    if (places(*unit, worker)) {
      auto hearing = receive_told(unit, worker, &head, &contribution);
      co_await hearing;
    } else {
      contribution.values = take_contribution(*unit);
      auto hearing = receive(unit, worker, &head, coded ? &wire : contribution.values.get());
      co_await hearing;
      check(*unit, worker, head);
    }
    slot.closed = head[ServerWire::KindOf] == ServerWire::Close;
    if (coded && !slot.closed) {
      auto decoding = decode(unit, worker, head[ServerWire::Round], &wire, contribution.values.get());
      co_await decoding;
    }
    if (!slot.closed) {
      slot.waits = true;
      slot.may_go = std::make_unique<task::Event>(runtime_.executor(), runtime_.pending());
      Came came{head, std::move(contribution)};
      if (unit->replay)
        slot.came = std::move(came);
      else
        take_in(unit, worker, std::move(came));
    }
    if (slot.closed && !unit->replay) co_return;
    auto settling = settle(unit);
    co_await settling;
    if (slot.closed) co_return;
    {
      comm::GuardedEvent guard(setup_.failures, peer, *slot.may_go);
      auto going = slot.may_go->wait(unit->replay ? kFollowed : "slower workers", describe(*unit), peer);
      co_await going;
    }
    auto replying = places(*unit, worker) ? reply_told(unit, worker, context) : reply(unit, worker, context);
    co_await replying;
    if (setup_.owner->answers == ServerState::Answers::Updates) std::swap(slot.last, slot.answer);
    if (slot.answer) keep(unit, std::move(slot.answer));
  }
}

AsyncEvent::Kind ParameterServer::take_in(Unit* unit, int worker, Came came) {
  auto& [head, contribution] = came;
  WorkerSlot& slot = unit->slots[static_cast<std::size_t>(worker)];
  slot.applied = false;
  contribution.number = head[ServerWire::Number];
  contribution.samples = head[ServerWire::Samples];
  contribution.mean_over = head[ServerWire::MeanOver];
  contribution.round = head[ServerWire::Round];
  if (!unit->controller.is_new(worker, contribution.number)) {
    note(AsyncEvent::Kind::Repeat, *unit, worker, contribution.number);
    give_back(*unit, std::move(contribution));
    slot.applied = true;
    slot.answer = std::move(slot.last);
    return AsyncEvent::Kind::Repeat;
  }
  const std::size_t place = unit->arrivals++;
  if (unit->controller.arrive(worker, head[ServerWire::Clock], head[ServerWire::Base]) ==
      ConsistencyController::Arrival::Dropped) {
    note(AsyncEvent::Kind::Drop, *unit, worker, contribution.number);
    give_back(*unit, std::move(contribution));
    drop(unit, worker);
    return AsyncEvent::Kind::Drop;
  }
  note(AsyncEvent::Kind::Admit, *unit, worker, contribution.number);
  unit->pool.emplace(place, std::move(contribution));
  return AsyncEvent::Kind::Admit;
}

task::Task<void> ParameterServer::pause(Unit* unit, int worker, std::int64_t number) {
  if (!unit->replay) make_pause(unit, worker, number);
  auto settling = settle(unit);
  co_await settling;
  auto paused = unit->slots[static_cast<std::size_t>(worker)].paused->wait(kFollowed, describe(*unit));
  co_await paused;
}

void ParameterServer::make_pause(Unit* unit, int worker, std::int64_t number) {
  unit->controller.pause(worker);
  note(AsyncEvent::Kind::Pause, *unit, worker, number);
  WorkerSlot& slot = unit->slots[static_cast<std::size_t>(worker)];
  slot.wants_pause = false;
  slot.paused->set();
}

task::Task<void> ParameterServer::handle_control(int worker) {
  std::exception_ptr error;
  try {
    auto obeying = handle_control_while_here(worker);
    co_await obeying;
  } catch (...) {
    error = std::current_exception();
  }
  if (error && !comm::is_expendable_loss(setup_.failures, setup_.group->global(worker), error))
    std::rethrow_exception(error);
}

task::Task<void> ParameterServer::handle_control_while_here(int worker) {
  comm::Communicator& group = *setup_.group;
  const Rank peer = group.global(worker);
  for (std::uint32_t context = 0;; ++context) {
    ServerWire::Head head{};
    {
      net::RecvOp said(runtime_.transport, peer,
                       ServerWire::tag(group, kServerControlUnit, context, ServerWire::Control),
                       bytes_of(head), DType::Int64);
      comm::GuardedOp guard(setup_.failures, runtime_.transport, said);
      co_await said;
    }
    const std::int64_t kind = head[ServerWire::KindOf];
    if (kind != ServerWire::Pause && kind != ServerWire::Close)
      throw comm::told_wrong(peer, "pause", fmt::format("a word of kind {}", kind));
    for (auto& unit : units_) {
      WorkerSlot& slot = unit->slots[static_cast<std::size_t>(worker)];
      slot.paused = std::make_unique<task::Event>(runtime_.executor(), runtime_.pending());
      slot.wants_pause = true;
    }
    for (auto& unit : units_) {
      auto pausing = pause(unit.get(), worker, context);
      co_await pausing;
    }
    const ServerWire::Head done{};
    net::SendOp says(runtime_.transport, peer,
                     ServerWire::tag(group, kServerControlUnit, context, ServerWire::ControlDone),
                     const_bytes_of(done), DType::Int64);
    comm::GuardedOp guard(setup_.failures, runtime_.transport, says);
    co_await says;
    if (kind == ServerWire::Close) co_return;
  }
}

}  // namespace taxon::exchange
