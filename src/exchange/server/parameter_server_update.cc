// What a server does with contributions once they are there.
#include <algorithm>
#include <cstring>

#include "comm/sum.h"
#include "exchange/server/parameter_server.h"

namespace taxon::exchange {
namespace {

constexpr std::size_t kPieceElements = 256 * 1024;

}  // namespace

/// Updates and answers as long as there is something to do. One at a time: who comes meanwhile is seen to.
task::Task<void> ParameterServer::settle(Unit* unit) {
  unit->again = true;
  if (unit->settling) co_return;
  unit->settling = true;
  while (std::exchange(unit->again, false)) {
    if (unit->replay) {
      auto following = follow(unit);
      co_await following;
      continue;
    }
    auto releasing = release(unit);
    co_await releasing;
    if (!unit->controller.full()) continue;
    auto applying = apply(unit);
    co_await applying;
    unit->again = true;
  }
  unit->settling = false;
  if (unit->idle) unit->idle->set();
}

task::Task<void> ParameterServer::quiet() {
  for (auto& unit : units_) {
    if (!unit->settling) continue;
    unit->idle = std::make_unique<task::Event>(runtime_.executor(), runtime_.pending());
    auto waiting = unit->idle->wait("update", unit->bucket->name);
    co_await waiting;
  }
}

task::Task<void> ParameterServer::release(Unit* unit) {
  const bool at_once = setup_.owner->answers == ServerState::Answers::Values;
  for (std::size_t w = 0; w < unit->slots.size(); ++w) {
    WorkerSlot& slot = unit->slots[w];
    const int worker = static_cast<int>(w);
    if (!slot.waits || !(at_once || slot.applied) || !unit->controller.may_go(worker)) continue;
    // One whose contribution fills the pool sees the update that it makes.
    if (at_once && !slot.applied && unit->controller.full()) continue;
    auto giving = give(unit, worker);
    co_await giving;
  }
}

task::Task<void> ParameterServer::give(Unit* unit, int worker) {
  WorkerSlot& slot = unit->slots[static_cast<std::size_t>(worker)];
  if (!slot.answer) {
    auto answering = answer(unit, worker, &setup_.owner->values(), unit->range.begin);
    co_await answering;
  }
  slot.head[ServerWire::CommonClock] = std::max(unit->controller.clock(worker), unit->controller.common());
  slot.head[ServerWire::Version] = unit->controller.version();
  slot.waits = false;
  note(AsyncEvent::Kind::Answer, *unit, worker, unit->controller.version());
  slot.may_go->set();
}

task::Task<void> ParameterServer::apply(Unit* unit) {
  const std::vector<ConsistencyController::Pooled> update = unit->controller.take();
  std::vector<Contribution> taken;
  std::vector<optim::Lateness> lateness;
  PendingUpdate pool{static_cast<double>(update.size()), 1, unit->controller.version() - 1, unit->samples};
  note(AsyncEvent::Kind::Update, *unit, 0, pool.version);
  std::int64_t samples = 0;
  double shares = 0;
  bool alike = true;
  for (const ConsistencyController::Pooled& pooled : update) {
    auto found = unit->pool.find(pooled.place);
    taken.push_back(std::move(found->second));
    unit->pool.erase(found);
    const Contribution& contribution = taken.back();
    note(AsyncEvent::Kind::Apply, *unit, pooled.worker, contribution.number);
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
  for (const ConsistencyController::Pooled& late : unit->controller.drop_late()) outdate(unit, late);
  if (alike) shares = static_cast<double>(samples) / static_cast<double>(taken.front().mean_over);
  pool.scale = shares > 0 ? 1 / shares : 0;
  unit->samples += samples;
  Buffer asked;  // the sum, where the contributions are wires
  if (unit->asks) {
    asked = take(*unit);
    auto inquiring = inquire(unit, &update, &taken, asked.get());
    co_await inquiring;
  } else {
    auto summing = add_up(unit, &taken, &lateness);
    co_await summing;
  }
  const tensor::Arena& sum = asked ? *asked : *taken[0].values;
  const DType type = setup_.weights->type();
  tensor::Kernel kernel{
      "server update",
      {4.0 * static_cast<double>(unit->range.size), 5 * unit->range.size * size_of(type)},
      [this, &sum, unit, &pool](tensor::Milestones&) { setup_.owner->update(sum, unit->range, pool); }};
  auto updated = run("server update", std::move(kernel), unit);
  co_await updated;
  for (const ConsistencyController::Pooled& pooled : update) {
    WorkerSlot& slot = unit->slots[static_cast<std::size_t>(pooled.worker)];
    slot.applied = true;
    if (setup_.owner->answers == ServerState::Answers::Values) continue;
    auto answering = answer(unit, pooled.worker, &sum, 0);
    co_await answering;
  }
  if (asked) unit->free.push_back(std::move(asked));
  for (Contribution& contribution : taken) give_back(*unit, std::move(contribution));
}

/// The first contribution := the sum of all.
task::Task<void> ParameterServer::add_up(Unit* unit, std::vector<Contribution>* taken,
                                         const std::vector<optim::Lateness>* lateness) {
  const DType type = setup_.weights->type();
  for (std::size_t begin = 0; begin < unit->range.size; begin += kPieceElements) {
    const Range piece{begin, std::min(kPieceElements, unit->range.size - begin)};
    tensor::Kernel kernel{"server sum",
                          {static_cast<double>(piece.size * taken->size()) * (late_ ? 5 : 1),
                           (taken->size() * (late_ ? 4 : 1) + 1) * piece.size * size_of(type)},
                          [this, unit, taken, lateness, piece, type](tensor::Milestones&) {
                            std::vector<ConstView> sources;
                            for (std::size_t i = 0; i < taken->size(); ++i) {
                              correct(*unit, (*taken)[i], (*lateness)[i], piece);
                              sources.emplace_back((*taken)[i].values->bytes(piece));
                            }
                            if (sources.size() > 1)
                              comm::sum_into(type, (*taken)[0].values->bytes(piece), sources);
                          }};
    auto summed = run("server sum", std::move(kernel), unit);
    co_await summed;
  }
}

void ParameterServer::outdate(Unit* unit, const ConsistencyController::Pooled& late) {
  auto found = unit->pool.find(late.place);
  note(AsyncEvent::Kind::Outdate, *unit, late.worker, found->second.number);
  give_back(*unit, std::move(found->second));
  unit->pool.erase(found);
  drop(unit, late.worker);
}

void ParameterServer::drop(Unit* unit, int worker) {
  unit->slots[static_cast<std::size_t>(worker)].applied = true;  // there is nothing to come
  dropped_ += unit == units_.front().get();
}

/// So that it counts as what it would be if it were not late.
void ParameterServer::correct(const Unit& unit, Contribution& contribution, const optim::Lateness& lateness,
                              Range piece) {
  if (!late_) return;
  const optim::UpdateRange all{unit.range, 0, unit.state};
  late_->correct(*contribution.values, setup_.owner->values(),
                 all.of({unit.range.begin + piece.begin, piece.size}), lateness);
}

task::Task<void> ParameterServer::answer(Unit* unit, int worker, const tensor::Arena* values,
                                         std::size_t begin) {
  if (unit->answer_wire) {
    auto answering = unit->asks ? answer_chosen(unit, worker) : answer_difference(unit, worker);
    co_await answering;
    co_return;
  }
  WorkerSlot& slot = unit->slots[static_cast<std::size_t>(worker)];
  const View place = place_of_answer(slot);
  slot.in_place = !place.empty();
  Buffer buffer = slot.in_place
                      ? std::make_unique<tensor::Arena>(tensor::Arena::over(setup_.weights->type(), place))
                      : take(*unit);
  tensor::Kernel kernel{"answer",
                        {0, 2 * buffer->bytes().size()},
                        [this, unit, worker, out = buffer.get(), values, begin](tensor::Milestones&) {
                          ConstView from = values->bytes({begin, out->size()});
                          if (from.size() > 0) std::memcpy(out->bytes().data(), from.data(), from.size());
                          if (late_) late_->served(worker, *values, {{begin, out->size()}, 0, unit->state});
                        }};
  auto copied = run("answer", std::move(kernel), unit);
  co_await copied;
  slot.answer = std::move(buffer);
}

task::Task<void> ParameterServer::run(const char* name, tensor::Kernel kernel, const Unit* unit) {
  comm::Span span{"exchange", name, unit->bucket->id.value(), kernel.cost.bytes, runtime_.executor().now(),
                  {}};
  auto done = tensor::run(runtime_.device, runtime_.pending(), tensor::Stream::Exchange, std::move(kernel));
  co_await done;
  span.end = runtime_.executor().now();
  runtime_.recorder.add(span);
}

}  // namespace taxon::exchange
