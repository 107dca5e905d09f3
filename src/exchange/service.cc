#include "exchange/service.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "comm/in_flight.h"
#include "comm/sum.h"

namespace taxon::exchange {
namespace {

constexpr std::size_t kPieceElements = 256 * 1024;

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

Service::Service(comm::Runtime& runtime, Setup setup)
    : runtime_(runtime), setup_(std::move(setup)), listeners_(runtime.waits()) {
  const Roles& roles = setup_.roles;
  int server = 0;
  while (roles.member_of_server(server) != setup_.group->rank()) ++server;
  std::size_t owned = 0;
  for (const Bucket& bucket : setup_.layout->buckets) {
    auto unit = std::make_unique<Unit>(Unit{&bucket,
                                            roles.part_of(bucket.range, server),
                                            owned,
                                            Desk(roles.workers(), setup_.numbers),
                                            {},
                                            {},
                                            0,
                                            0,
                                            {}});
    unit->seats.resize(static_cast<std::size_t>(roles.workers()));
    owned += unit->range.size;
    units_.push_back(std::move(unit));
  }
  if (setup_.late) late_ = setup_.late(owned);
}

std::vector<std::pair<std::string, tensor::Arena*>> Service::state() const {
  return late_ ? late_->state() : std::vector<std::pair<std::string, tensor::Arena*>>();
}

std::vector<Range> Service::owned() const {
  std::vector<Range> ranges;
  for (const auto& unit : units_) ranges.push_back(unit->range);
  return ranges;
}

Service::Buffer Service::take(Unit& unit) {
  if (unit.free.empty())
    return std::make_unique<tensor::Arena>(setup_.weights->type(), unit.range.size, setup_.weights->bytes());
  Buffer buffer = std::move(unit.free.back());
  unit.free.pop_back();
  return buffer;
}

void Service::note(Act::Kind kind, const Unit& unit, int worker, std::int64_t number) {
  if (setup_.record) setup_.record->push_back({kind, unit.bucket->id.value(), worker, number});
}

task::Task<void> Service::open() {
  for (auto& unit : units_) {
    tensor::Kernel kernel{"owner's weights",
                          {0, 2 * unit->range.size * size_of(setup_.weights->type())},
                          [this, range = unit->range, state = unit->state](tensor::Marks&) {
                            setup_.owner->begin(*setup_.weights, range);
                            for (int worker = 0; late_ && worker < setup_.roles.workers(); ++worker)
                              late_->served(worker, *setup_.weights, {range, 0, state});
                          }};
    auto filled = run("owner's weights", std::move(kernel), unit.get());
    co_await filled;
  }
}

void Service::attend(std::int64_t version, std::int64_t samples) {
  for (auto& unit : units_) {
    unit->desk.set_out(version);
    unit->samples = samples;
  }
  for (int worker = 0; worker < setup_.roles.workers(); ++worker) {
    for (auto& unit : units_) listeners_.spawn(attend(unit.get(), worker));
    listeners_.spawn(obey(worker));
  }
}

task::Task<void> Service::closed() { co_await listeners_.join(); }

task::Task<void> Service::abandon(std::exception_ptr why) {
  if (!runtime_.waits().cancelled()) runtime_.waits().cancel(why);
  try {
    co_await listeners_.join();
  } catch (...) {
  }
}

task::Task<void> Service::attend(Unit* unit, int worker) {
  comm::Communicator& group = *setup_.group;
  const Rank peer = group.global(worker);
  const auto id = static_cast<std::uint32_t>(unit->bucket->id.value());
  Seat& seat = unit->seats[static_cast<std::size_t>(worker)];
  for (std::uint32_t use = 0;; ++use) {
    Contribution contribution{take(*unit)};
    ServerWire::Head head{};
    {
      net::RecvOp said(runtime_.transport, peer, ServerWire::tag(group, id, use, ServerWire::HandedInHead),
                       bytes_of(head), DType::Int64);
      net::RecvOp values(runtime_.transport, peer, ServerWire::tag(group, id, use, ServerWire::HandedIn),
                         contribution.values->bytes(), contribution.values->type());
      auto both = await_both<net::RecvOp>(&said, &values);
      auto received = comm::settle(runtime_.waits(), std::move(both));
      co_await received;
    }
    if (head[ServerWire::KindOf] == ServerWire::Close) co_return;
    contribution.number = use;
    contribution.samples = head[ServerWire::Samples];
    contribution.mean_over = head[ServerWire::MeanOver];
    seat.waits = true;
    seat.applied = false;
    seat.may_go = std::make_unique<task::Event>(runtime_.executor(), runtime_.waits());
    const std::size_t place = unit->arrivals++;
    if (unit->desk.arrive(worker, head[ServerWire::Clock], head[ServerWire::Base]) ==
        Desk::Arrival::Dropped) {
      note(Act::Kind::Drop, *unit, worker, use);
      unit->free.push_back(std::move(contribution.values));
      seat.applied = true;  // there is nothing to come
      dropped_ += unit == units_.front().get();
    } else {
      note(Act::Kind::Admit, *unit, worker, use);
      unit->pool.emplace(place, std::move(contribution));
    }
    auto settling = settle(unit);
    co_await settling;
    auto going = seat.may_go->wait("slower workers", unit->bucket->name + ", " + unit->desk.describe(), peer);
    co_await going;
    net::SendOp says(runtime_.transport, peer, ServerWire::tag(group, id, use, ServerWire::AnswerHead),
                     const_bytes_of(seat.head), DType::Int64);
    net::SendOp answer(runtime_.transport, peer, ServerWire::tag(group, id, use, ServerWire::Answer),
                       seat.answer->bytes(), seat.answer->type());
    auto both = await_both<net::SendOp>(&says, &answer);
    auto sent = comm::settle(runtime_.waits(), std::move(both));
    co_await sent;
    unit->free.push_back(std::move(seat.answer));
  }
}

task::Task<void> Service::obey(int worker) {
  comm::Communicator& group = *setup_.group;
  const Rank peer = group.global(worker);
  for (std::uint32_t use = 0;; ++use) {
    ServerWire::Head head{};
    net::RecvOp said(runtime_.transport, peer,
                     ServerWire::tag(group, kServerControlUnit, use, ServerWire::Control), bytes_of(head),
                     DType::Int64);
    co_await said;
    for (auto& unit : units_) {
      unit->desk.pause(worker);
      note(Act::Kind::Pause, *unit, worker, use);
      auto settling = settle(unit.get());
      co_await settling;
    }
    const ServerWire::Head done{};
    net::SendOp says(runtime_.transport, peer,
                     ServerWire::tag(group, kServerControlUnit, use, ServerWire::ControlDone),
                     const_bytes_of(done), DType::Int64);
    co_await says;
    if (head[ServerWire::KindOf] == ServerWire::Close) co_return;
  }
}

/// Updates and answers as long as there is something to do. One at a time: who comes meanwhile is seen to.
task::Task<void> Service::settle(Unit* unit) {
  unit->again = true;
  if (unit->settling) co_return;
  unit->settling = true;
  while (std::exchange(unit->again, false)) {
    auto releasing = release(unit);
    co_await releasing;
    if (!unit->desk.full()) continue;
    auto applying = apply(unit);
    co_await applying;
    unit->again = true;
  }
  unit->settling = false;
}

task::Task<void> Service::release(Unit* unit) {
  const bool at_once = setup_.owner->answers == Owner::Answers::Values;
  for (std::size_t w = 0; w < unit->seats.size(); ++w) {
    Seat& seat = unit->seats[w];
    const int worker = static_cast<int>(w);
    if (!seat.waits || !(at_once || seat.applied) || !unit->desk.may_go(worker)) continue;
    // One whose contribution fills the pool sees the update that it makes.
    if (at_once && !seat.applied && unit->desk.full()) continue;
    if (!seat.answer) {
      auto answering = answer(unit, worker, &setup_.owner->values(), unit->range.begin);
      co_await answering;
    }
    seat.head[ServerWire::CommonClock] = std::max(unit->desk.clock(worker), unit->desk.common());
    seat.head[ServerWire::Version] = unit->desk.version();
    seat.waits = false;
    note(Act::Kind::Answer, *unit, worker, unit->desk.version());
    seat.may_go->set();
  }
}

task::Task<void> Service::apply(Unit* unit) {
  const std::vector<Desk::Pooled> update = unit->desk.take();
  std::vector<Contribution> taken;
  std::vector<optim::Lateness> lateness;
  Pool pool{static_cast<double>(update.size()), 1, unit->desk.version() - 1, unit->samples};
  note(Act::Kind::Update, *unit, 0, pool.version);
  std::int64_t samples = 0;
  double shares = 0;
  bool alike = true;
  for (const Desk::Pooled& pooled : update) {
    auto found = unit->pool.find(pooled.place);
    taken.push_back(std::move(found->second));
    unit->pool.erase(found);
    const Contribution& contribution = taken.back();
    note(Act::Kind::Apply, *unit, pooled.worker, contribution.number);
    samples += contribution.samples;
    const double share =
        static_cast<double>(contribution.samples) / static_cast<double>(contribution.mean_over);
    shares += share;
    alike = alike && contribution.mean_over == taken.front().mean_over;
    lateness.push_back({pooled.worker, pooled.staleness, share});
    if (unit == units_.front().get()) {
      const auto late = static_cast<std::size_t>(std::max<std::int64_t>(0, pooled.staleness));
      if (staleness_.size() <= late) staleness_.resize(late + 1);
      ++staleness_[late];
    }
  }
  if (alike) shares = static_cast<double>(samples) / static_cast<double>(taken.front().mean_over);
  pool.scale = shares > 0 ? 1 / shares : 0;
  unit->samples += samples;
  const DType type = setup_.weights->type();
  for (std::size_t begin = 0; begin < unit->range.size; begin += kPieceElements) {
    const Range piece{begin, std::min(kPieceElements, unit->range.size - begin)};
    tensor::Kernel kernel{"server sum",
                          {static_cast<double>(piece.size * taken.size()) * (late_ ? 5 : 1),
                           (taken.size() * (late_ ? 4 : 1) + 1) * piece.size * size_of(type)},
                          [this, unit, &taken, &lateness, piece, type](tensor::Marks&) {
                            std::vector<ConstView> sources;
                            for (std::size_t i = 0; i < taken.size(); ++i) {
                              correct(*unit, taken[i], lateness[i], piece);
                              sources.emplace_back(taken[i].values->bytes(piece));
                            }
                            if (sources.size() > 1)
                              comm::sum_into(type, taken[0].values->bytes(piece), sources);
                          }};
    auto summed = run("server sum", std::move(kernel), unit);
    co_await summed;
  }
  tensor::Kernel kernel{"server update",
                        {4.0 * static_cast<double>(unit->range.size), 5 * unit->range.size * size_of(type)},
                        [this, &taken, unit, &pool](tensor::Marks&) {
                          setup_.owner->update(*taken[0].values, unit->range, pool);
                        }};
  auto updated = run("server update", std::move(kernel), unit);
  co_await updated;
  for (const Desk::Pooled& pooled : update) {
    Seat& seat = unit->seats[static_cast<std::size_t>(pooled.worker)];
    seat.applied = true;
    if (setup_.owner->answers == Owner::Answers::Values) continue;
    auto answering = answer(unit, pooled.worker, taken[0].values.get(), 0);
    co_await answering;
  }
  for (Contribution& contribution : taken) unit->free.push_back(std::move(contribution.values));
}

/// So that it counts as what it would be if it were not late.
void Service::correct(const Unit& unit, Contribution& contribution, const optim::Lateness& lateness,
                      Range piece) {
  if (!late_) return;
  const optim::Place all{unit.range, 0, unit.state};
  late_->correct(*contribution.values, setup_.owner->values(),
                 all.of({unit.range.begin + piece.begin, piece.size}), lateness);
}

task::Task<void> Service::answer(Unit* unit, int worker, const tensor::Arena* values, std::size_t begin) {
  Buffer buffer = take(*unit);
  tensor::Kernel kernel{"answer",
                        {0, 2 * buffer->bytes().size()},
                        [this, unit, worker, out = buffer.get(), values, begin](tensor::Marks&) {
                          ConstView from = values->bytes({begin, out->size()});
                          if (from.size() > 0) std::memcpy(out->bytes().data(), from.data(), from.size());
                          if (late_) late_->served(worker, *values, {{begin, out->size()}, 0, unit->state});
                        }};
  auto copied = run("answer", std::move(kernel), unit);
  co_await copied;
  unit->seats[static_cast<std::size_t>(worker)].answer = std::move(buffer);
}

task::Task<void> Service::run(const char* name, tensor::Kernel kernel, const Unit* unit) {
  comm::Span span{"exchange", name, unit->bucket->id.value(), kernel.cost.bytes, runtime_.executor().now(),
                  {}};
  auto done = tensor::run(runtime_.device, runtime_.waits(), tensor::Lane::Exchange, std::move(kernel));
  co_await done;
  span.end = runtime_.executor().now();
  runtime_.journal.add(span);
}

}  // namespace taxon::exchange
