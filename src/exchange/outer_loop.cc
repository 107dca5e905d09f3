#include "exchange/outer_loop.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "exchange/cast.h"
#include "exchange/kernels.h"

namespace taxon::exchange {
OuterLoop::OuterLoop(comm::Runtime& runtime, const Setup& setup)
    : runtime_(runtime),
      setup_(setup),
      schedule_(*setup.plan),
      scheduler_(runtime, static_cast<int>(setup.layout->buckets.size())),
      children_(runtime.pending()),
      listeners_(runtime.pending()) {
  std::size_t state = 0;
  const std::vector<Bucket>& buckets = setup.layout->buckets;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    Unit unit;
    unit.bucket = &buckets[b];
    unit.fragment = schedule_.fragment_of(b, buckets.size());
    unit.rows = {buckets[b].rows[setup.level]};
    unit.owned = setup.outer->owned(buckets[b].owned);
    unit.state = state;
    state += unit.owned.size;
    units_.push_back(std::move(unit));
  }
  rule_ = optim::find_outer(setup.plan->rule, setup.own.outer_rules)
              .make(*setup.plan, {setup.master->type(), state, setup.members, setup.master->bytes()});
}

task::Task<void> OuterLoop::begin() {
  for (Unit& unit : units_) {
    optim::UpdateRange place{unit.owned, unit.owned.begin, unit.state};
    auto done = run_kernel(runtime_, "anchor", unit.bucket->id.value(),
                           {0, 2 * unit.owned.size * size_of(setup_.master->type())},
                           [this, place](tensor::Milestones&) { rule_->begin(*setup_.master, place); });
    co_await done;
  }
}

task::Task<void> OuterLoop::serve() {
  std::vector<Range> units;
  for (const Unit& unit : units_) units.push_back(range(unit));
  co_await setup_.outer->serve(std::move(units), setup_.master, &listeners_);
}

task::Task<void> OuterLoop::pause(std::int64_t step) {
  co_await setup_.outer->pause();
  if (!setup_.outer->is_passive()) co_return;
  std::vector<Unit*> all;
  for (Unit& unit : units_) all.push_back(&unit);
  auto starting = start(all, {});
  co_await starting;
  co_await adopt_all(std::move(all), step);
}

task::Task<void> OuterLoop::close() {
  std::vector<Range> units;
  for (const Unit& unit : units_) units.push_back(range(unit));
  co_await setup_.outer->close(std::move(units), setup_.master);
  co_await listeners_.join();
}

bool OuterLoop::due_after(std::int64_t step) const {
  return std::any_of(units_.begin(), units_.end(), [&](const Unit& unit) {
    return schedule_.meets(unit.fragment, step) || (unit.answered && unit.adopted_after <= step);
  });
}

task::Task<void> OuterLoop::after(optim::StepClock clock) {
  const std::int64_t step = clock.step + 1;
  std::vector<Unit*> due;
  for (Unit& unit : units_)
    if (schedule_.meets(unit.fragment, step)) due.push_back(&unit);
  if (!due.empty()) {
    for (Unit* unit : due) unit->adopted_after = schedule_.adopted_after(step);
    co_await start(std::move(due), clock);
  }
  std::vector<Unit*> answered;
  for (Unit& unit : units_)
    if (unit.answered && unit.adopted_after <= step) answered.push_back(&unit);
  co_await adopt_all(std::move(answered), step);
}

task::Task<void> OuterLoop::start(std::vector<Unit*> units, optim::StepClock clock) {
  // Nobody of the last meeting is in the scheduler any more: its answers have been adopted.
  if (children_.live() > 0) co_await children_.join();
  scheduler_.begin(std::vector<int>(units_.size(), 0));
  setup_.outer->begin_turn();
  setup_.outer->weigh(1, 1);
  for (Unit* unit : units) {
    co_await hand_in(unit);
    unit->answered = std::make_unique<task::Event>(runtime_.executor(), runtime_.pending());
  }
  for (Unit* unit : units) children_.spawn(meet(unit, clock));
}

task::Task<void> OuterLoop::hand_in(Unit* unit) {
  const Range all = range(*unit);
  auto done = run_kernel(
      runtime_, "hand in", unit->bucket->id.value(), {0, 2 * all.size * size_of(setup_.master->type())},
      [this, all](tensor::Milestones&) { cast_range(*setup_.master, *setup_.handed_in, all); });
  co_await done;
}

BucketTransfer OuterLoop::transfer(const Unit& unit, std::int64_t round) const {
  return {.unit = static_cast<std::uint32_t>(unit.bucket->id.value()),
          .range = range(unit),
          .rows = &unit.rows,
          .round = round,
          .meeting = schedule_.meetings_before(unit.fragment, round + 1)};
}

task::Task<void> OuterLoop::meet(Unit* unit, optim::StepClock clock) {
  BucketScheduler::Admission turn = co_await scheduler_.enter(unit->bucket->id.value(), unit->bucket->name);
  const double weight = co_await setup_.outer->reduce(transfer(*unit, clock.step), *setup_.handed_in);
  co_await update(unit, weight, clock);
  co_await setup_.outer->spread(transfer(*unit, clock.step), *setup_.handed_in);
  if (setup_.plan->inner_state == plan::InnerState::Average) {
    co_await average_inner_state(unit, clock.step);
  }
  unit->answered->set();
}

task::Task<void> OuterLoop::update(Unit* unit, double weight, optim::StepClock clock) {
  const optim::UpdateRange owned{unit->owned, unit->owned.begin, unit->state};
  for (Range piece : kernel_pieces(owned.weights)) {
    auto done = run_kernel(
        runtime_, "outer update", unit->bucket->id.value(),
        {6.0 * static_cast<double>(piece.size), static_cast<std::size_t>(rule_->update_touches(weight)) *
                                                    piece.size * size_of(setup_.master->type())},
        [this, place = owned.of(piece), weight, clock](tensor::Milestones&) {
          rule_->update(*setup_.handed_in, place, weight, clock);
        });
    co_await done;
    task::Yield others(runtime_.executor());
    co_await others;
  }
}

/// The replicas' momentum, as their weights, but with what is simplest: it is asked for rarely.
task::Task<void> OuterLoop::average_inner_state(Unit* unit, std::int64_t round) {
  const TopologyRow& topology = find_topology(setup_.plan->topology, setup_.own.topologies);
  LevelAlgorithms rows;
  if (topology.reduce != net::Operation::User) rows.reduce = &comm::find_row(topology.reduce, "ring");
  if (topology.spread != net::Operation::User) rows.spread = &comm::find_row(topology.spread, "ring");
  const std::vector<LevelAlgorithms> by_level{rows};
  std::uint32_t number = 0;
  for (const auto& [name, arena] : setup_.local->state()) {
    const Range state{unit->bucket->shard, unit->bucket->owned.size};
    const auto id = static_cast<std::uint32_t>(unit->bucket->id.value());
    BucketTransfer transfer{kInnerStateUnit + number++ * kBucketsPerState + id, 0, state, &by_level, round};
    transfer.meeting = schedule_.meetings_before(unit->fragment, round + 1);
    const double weight = co_await setup_.outer->reduce(transfer, *arena);
    auto scaling = run_kernel(
        runtime_, "inner state", unit->bucket->id.value(), {0, 2 * state.size * size_of(arena->type())},
        [arena = arena, part = setup_.outer->owned(state), weight](tensor::Milestones&) {
          dispatch(arena->type(), [&](auto zero) {
            using T = decltype(zero);
            if constexpr (std::is_floating_point_v<T>)
              for (T& value : arena->values<T>(part)) value *= T(1 / weight);
          });
        });
    co_await scaling;
    co_await setup_.outer->spread(transfer, *arena);
  }
}

task::Task<void> OuterLoop::adopt_all(std::vector<Unit*> units, std::int64_t step) {
  for (Unit* unit : units) {
    auto answer = unit->answered->wait("meeting of replicas", unit->bucket->name);
    co_await answer;
    co_await adopt(unit, step);
    unit->answered.reset();
  }
}

task::Task<void> OuterLoop::adopt(Unit* unit, std::int64_t step) {
  const Range all = range(*unit);
  const double mixing = setup_.plan->mixing;
  const bool reset = setup_.plan->inner_state == plan::InnerState::Reset;
  const std::size_t touches = static_cast<std::size_t>(rule_->adopt_touches()) + (mixing == 0 ? 0 : 3) +
                              (reset ? setup_.local->state().size() : 0);
  auto done = run_kernel(runtime_, "adopt", unit->bucket->id.value(),
                         {0, touches * all.size * size_of(setup_.master->type())},
                         [this, all, mixing, reset, state = unit->bucket->shard](tensor::Milestones&) {
                           const tensor::Arena& answer = *setup_.handed_in;
                           dispatch(answer.type(), [&](auto zero) {
                             using T = decltype(zero);
                             if constexpr (std::is_floating_point_v<T>) {
                               if (mixing == 0) return;
                               auto own = setup_.master->values<T>(all);
                               auto other = answer.values<T>(all);
                               for (std::size_t i = 0; i < own.size(); ++i)
                                 other[i] += T(mixing) * (own[i] - other[i]);
                             }
                           });
                           rule_->adopt(*setup_.master, answer, optim::UpdateRange::same(all));
                           if (!reset) return;
                           for (const auto& [name, arena] : setup_.local->state()) {
                             View part = arena->bytes({state, all.size});
                             std::memset(part.data(), 0, part.size());
                           }
                         });
  co_await done;
  if (reset) setup_.local->set_zero_at({unit->bucket->shard, all.size}, step);
  if (setup_.inner->spreads()) {
    BucketTransfer inward{static_cast<std::uint32_t>(unit->bucket->id.value()), 0, unit->bucket->range,
                          &unit->bucket->rows};
    co_await setup_.inner->spread(inward, *setup_.master);
  }
  if (setup_.compute == setup_.master) co_return;
  auto casting = run_kernel(runtime_, "cast", unit->bucket->id.value(), {0, unit->bucket->range.size * 6},
                            [this, unit](tensor::Milestones&) {
                              cast_range(*setup_.master, *setup_.compute, unit->bucket->range);
                            });
  co_await casting;
}

task::Task<void> OuterLoop::arrive() {
  for (Unit& unit : units_)
    if (unit.answered) {
      auto answer = unit.answered->wait("meeting of replicas", unit.bucket->name);
      co_await answer;
    }
}

void OuterLoop::resume(std::int64_t step) {
  for (Unit& unit : units_)
    if (auto begun = schedule_.underway(unit.fragment, step)) {
      unit.answered = std::make_unique<task::Event>(runtime_.executor(), runtime_.pending());
      unit.answered->set();
      unit.adopted_after = schedule_.adopted_after(*begun);
    }
}

task::Task<void> OuterLoop::conclude(optim::StepClock clock) {
  const std::int64_t step = clock.step + 1;
  std::vector<Unit*> underway, rest;
  for (Unit& unit : units_) {
    if (unit.answered) underway.push_back(&unit);
    if (!schedule_.meets(unit.fragment, step)) rest.push_back(&unit);
  }
  co_await adopt_all(std::move(underway), step);
  if (!rest.empty()) {
    co_await start(rest, clock);
    co_await adopt_all(std::move(rest), step);
  }
  if (children_.live() > 0) co_await children_.join();
}

task::Task<void> OuterLoop::gather_consensus(comm::Communicator& all, const tensor::Arena& whole) {
  const bool centre = rule_->shown() == optim::OuterRule::Shown::Centre;
  const auto& ring = comm::find_row(net::Operation::AllReduce, "ring");
  const auto& gather = comm::find_row(net::Operation::AllGather, "ring");
  for (Unit& unit : units_) {
    const Range bucket = unit.bucket->range;
    auto copied =
        run_kernel(runtime_, "show", unit.bucket->id.value(), {0, 2 * bucket.size * size_of(whole.type())},
                   [this, &whole, &unit, bucket, centre](tensor::Milestones&) {
                     if (!centre) return cast_range(*setup_.master, whole, bucket);
                     ConstView own = rule_->centre()->bytes({unit.state, unit.owned.size});
                     if (own.size() > 0) std::memcpy(whole.bytes(unit.owned).data(), own.data(), own.size());
                   });
    co_await copied;
    if (all.size() == 1) continue;
    const std::uint32_t id = kConsensusUnit + static_cast<std::uint32_t>(unit.bucket->id.value());
    if (centre) {
      const std::vector<LevelAlgorithms> outer_rows{{nullptr, &gather}};
      BucketTransfer outward{id, 0, range(unit), &outer_rows};
      co_await setup_.outer->spread(outward, whole);
      const std::vector<LevelAlgorithms> inner_rows(setup_.inner->size(), LevelAlgorithms{nullptr, &gather});
      BucketTransfer inward{id, 0, bucket, &inner_rows};
      co_await setup_.inner->spread(inward, whole);
      continue;
    }
    comm::Call call{whole.bytes(bucket), whole.type(), id};
    co_await ring.run(all, call);
    auto scaled =
        run_kernel(runtime_, "show", unit.bucket->id.value(), {0, 2 * bucket.size * size_of(whole.type())},
                   [&whole, bucket, size = all.size()](tensor::Milestones&) {
                     dispatch(whole.type(), [&](auto zero) {
                       using T = decltype(zero);
                       if constexpr (std::is_floating_point_v<T>)
                         for (T& value : whole.values<T>(bucket)) value /= T(size);
                     });
                   });
    co_await scaled;
  }
}

task::Task<void> OuterLoop::abandon(std::exception_ptr why) {
  if (!runtime_.pending().cancelled()) runtime_.pending().cancel(why);
  const std::array<task::Scope*, 2> scopes = {&children_, &listeners_};
  for (task::Scope* scope : scopes) try {
      co_await scope->join();
    } catch (...) {
    }
}

}  // namespace taxon::exchange
