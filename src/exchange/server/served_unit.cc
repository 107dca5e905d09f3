#include "exchange/server/served_unit.h"

#include <fmt/format.h>

namespace taxon::exchange {

// The algorithm: a server's side of Li et al. (OSDI 2014, algorithm 1), with clocks that say who waits (Ho et
// al., NeurIPS 2013). How values travel is the channel's matter, arithmetic the update's, and what counts the
// controller's.

task::Task<void> ServedUnit::serve(int worker) {
  WorkerSlot& slot = this->slot(worker);
  while (!slot.closed) {
    Contribution contribution = co_await slot.channel->receive(&controller_);
    slot.closed = contribution.closes();
    if (!slot.closed) {
      slot.waits = true;
      slot.may_go = std::make_unique<task::Event>(runtime().executor(), runtime().pending());
      slot.came = std::move(contribution);
    }
    if (!replay_ && !slot.closed) admit(worker);
    if (replay_ || !slot.closed) {
      co_await settle();
    }
    if (slot.closed) co_return;
    {
      const Rank rank = slot.channel->channel().rank();
      comm::GuardedEvent guard(setup_.failures, rank, *slot.may_go);
      auto going = slot.may_go->wait(replay_ ? kFollowed : "slower workers", describe(), rank);
      co_await going;
    }
    co_await slot.channel->reply(slot.head, slot.answer.get());
    if (!update_.answers_values()) slot.last = std::move(slot.answer);
    slot.answer.reset();
  }
}

/// A contribution counts, or not.
AsyncEvent::Kind ServedUnit::admit(int worker) {
  WorkerSlot& slot = this->slot(worker);
  Contribution contribution = std::move(*slot.came);
  slot.came.reset();
  slot.applied = false;
  const std::int64_t number = contribution.at(ServerWire::Number);
  if (!controller_.is_new(worker, number)) {
    note(AsyncEvent::Kind::Repeat, worker, number);
    slot.applied = true;
    slot.answer = std::move(slot.last);
    return AsyncEvent::Kind::Repeat;
  }
  const std::size_t place = arrivals_++;
  if (controller_.arrive(worker, contribution.at(ServerWire::Clock), contribution.at(ServerWire::Base),
                         time_of_arrival(worker)) == ConsistencyController::Arrival::Dropped)
    return drop(worker, AsyncEvent::Kind::Drop, number);
  note(AsyncEvent::Kind::Admit, worker, number);
  pool_.emplace(place, std::move(contribution));
  return AsyncEvent::Kind::Admit;
}

/// For rules that read times: now, or what the order that is followed says.
Instant ServedUnit::time_of_arrival(int worker) const {
  if (!setup_.consistency->reads_times) return {};
  const Instant now = replay_ ? came_ : runtime().executor().now();
  note(AsyncEvent::Kind::Time, worker, now.time_since_epoch().count());
  return now;
}

/// Updates and answers as long as there is something to do. One at a time: who comes meanwhile is seen to.
task::Task<void> ServedUnit::settle() {
  again_ = true;
  if (std::exchange(settling_, true)) co_return;
  while (std::exchange(again_, false)) {
    auto going = replay_ ? follow() : release();
    co_await going;
    if (replay_ || !controller_.full()) continue;
    co_await update();
    again_ = true;
  }
  settling_ = false;
  if (idle_) idle_->set();
}

/// Answers those that may go on.
task::Task<void> ServedUnit::release() {
  const bool at_once = update_.answers_values();
  for (std::size_t w = 0; w < slots_.size(); ++w) {
    const WorkerSlot& slot = slots_[w];
    const int worker = static_cast<int>(w);
    if (!slot.waits || !(at_once || slot.applied) || !controller_.may_go(worker)) continue;
    // One whose contribution fills the pool sees the update that it makes.
    if (at_once && !slot.applied && controller_.full()) continue;
    co_await give(worker);
  }
}

task::Task<void> ServedUnit::update() {
  const std::vector<ConsistencyController::Pooled> counted = controller_.take();
  PendingUpdate pending{static_cast<double>(counted.size()), 1, static_cast<std::int64_t>(*updates_),
                        samples_};
  ++*updates_;
  note(AsyncEvent::Kind::Update, 0, controller_.version() - 1);
  std::vector<PooledContribution> pool;
  double shares = 0;
  bool alike = true;
  for (const ConsistencyController::Pooled& pooled : counted) {
    Contribution contribution = std::move(pool_.extract(pooled.place).mapped());
    note(AsyncEvent::Kind::Apply, pooled.worker, contribution.at(ServerWire::Number));
    const std::int64_t samples = contribution.at(ServerWire::Samples);
    const std::int64_t mean_over = contribution.at(ServerWire::MeanOver);
    const double share = static_cast<double>(samples) / static_cast<double>(mean_over);
    samples_ += samples;
    shares += share;
    pool.push_back({std::move(contribution),
                    {pooled.worker, pooled.staleness, share},
                    &slot(pooled.worker).channel->channel()});
    alike = alike && mean_over == pool.front().contribution.at(ServerWire::MeanOver);
    if (counts_) counts_->count(pooled.staleness);
  }
  for (const ConsistencyController::Pooled& late : controller_.drop_late())
    drop(late.worker, AsyncEvent::Kind::Outdate, pool_.extract(late.place).mapped().at(ServerWire::Number));
  if (alike)
    shares = static_cast<double>(samples_ - pending.samples) /
             static_cast<double>(pool.front().contribution.at(ServerWire::MeanOver));
  pending.scale = shares > 0 ? 1 / shares : 0;
  auto summing = update_.sum(&part_, &pool);
  const Buffer sum = co_await summing;
  co_await update_.apply(&part_, sum.get(), pending);
  for (const ConsistencyController::Pooled& pooled : counted) {
    WorkerSlot& slot = this->slot(pooled.worker);
    slot.applied = true;
    if (update_.answers_values()) continue;
    auto answering = update_.answer(&part_, pooled.worker, controller_.version(), sum.get(), {});
    slot.answer = co_await answering;
  }
}

task::Task<void> ServedUnit::give(int worker) {
  WorkerSlot& slot = this->slot(worker);
  if (!slot.answer) {
    slot.answer = co_await update_.answer(&part_, worker, controller_.version(), nullptr,
                                          slot.channel->place_of_answer());
  }
  slot.head[ServerWire::CommonClock] = std::max(controller_.clock(worker), controller_.common());
  slot.head[ServerWire::Version] = controller_.version();
  slot.waits = false;
  note(AsyncEvent::Kind::Answer, worker, controller_.version());
  slot.may_go->set();
}

// What surrounds it.

ServedUnit::ServedUnit(const ServerSetup& setup, ServerUpdate& update, const Bucket& bucket, Range owned,
                       double* updates, ServerCounts* counts)
    : setup_(setup),
      quorum_(setup.consistency->bounds_of(*setup.level).quorum),
      update_(update),
      updates_(updates),
      counts_(counts),
      part_{&bucket, owned},
      controller_(setup.roles.workers(),
                  setup.consistency->make(*setup.level, {setup.roles.workers(), setup.seed,
                                                         static_cast<std::uint32_t>(part_.id())})),
      slots_(static_cast<std::size_t>(setup.roles.workers())) {
  if (setup.log.follow)
    replay_.emplace(bucket.name, *setup.log.follow, static_cast<std::int32_t>(bucket.id.value()));
}

void ServedUnit::attach(std::vector<ChannelPeer>* workers) {
  for (ChannelPeer& worker : *workers)
    slot(worker.member).channel =
        std::make_unique<ServerChannel>(*setup_.group, worker, part_, update_, setup_.failures);
}

void ServedUnit::set_out(std::int64_t version, std::int64_t samples) {
  controller_.set_out(version);
  samples_ = samples;
}

AsyncEvent::Kind ServedUnit::drop(int worker, AsyncEvent::Kind why, std::int64_t number) {
  note(why, worker, number);
  slot(worker).applied = true;  // there is nothing to come
  if (counts_) ++counts_->dropped;
  return why;
}

/// What was done in the run whose order is followed, as soon as it can be done, and nothing else.
task::Task<void> ServedUnit::follow() {
  for (;;) {
    std::vector<ServerReplay::Worker> workers;
    for (const WorkerSlot& slot : slots_)
      workers.push_back({slot.came.has_value(), slot.waits, slot.wants_pause, slot.closed});
    const AsyncEvent* event = replay_->next(workers, controller_.full());
    if (!event) co_return;
    AsyncEvent::Kind kind = event->kind;
    if (kind == AsyncEvent::Kind::Update) {
      co_await update();
    } else if (kind == AsyncEvent::Kind::Answer) {
      co_await give(event->worker);
    } else if (kind == AsyncEvent::Kind::Time) {
      came_ = Instant(Duration(event->number));
    } else if (kind == AsyncEvent::Kind::Pause) {
      make_pause(event->worker, event->number);
    } else {
      kind = admit(event->worker);
    }
    replay_->done(kind);
  }
}

task::Task<void> ServedUnit::lose(int worker) {
  slot(worker).waits = false;
  controller_.leave(worker);
  note(AsyncEvent::Kind::Lose, worker, 0);
  const Rank rank = setup_.group->global(worker);
  if (controller_.present() < quorum_)
    throw Error(ErrorKind::PeerLost,
                fmt::format("rank {} was lost, and the {} workers that are left make no quorum of {}",
                            rank.value(), controller_.present(), quorum_),
                {.rank = rank});
  co_await settle();
}

void ServedUnit::ask_pause(int worker) {
  slot(worker).paused = std::make_unique<task::Event>(runtime().executor(), runtime().pending());
  slot(worker).wants_pause = true;
}

task::Task<void> ServedUnit::pause(int worker, std::int64_t number) {
  if (!replay_) make_pause(worker, number);
  co_await settle();
  co_await slot(worker).paused->wait(kFollowed, describe());
}

void ServedUnit::make_pause(int worker, std::int64_t number) {
  controller_.pause(worker);
  note(AsyncEvent::Kind::Pause, worker, number);
  slot(worker).wants_pause = false;
  slot(worker).paused->set();
}

task::Task<void> ServedUnit::quiet() {
  if (!settling_) co_return;
  idle_ = std::make_unique<task::Event>(runtime().executor(), runtime().pending());
  auto waiting = idle_->wait("update", part_.bucket->name);
  co_await waiting;
}

void ServedUnit::finish() const {
  if (replay_) replay_->finish();
}

void ServedUnit::note(AsyncEvent::Kind kind, int worker, std::int64_t number) const {
  setup_.log.note({kind, static_cast<std::int32_t>(part_.id()), worker, number});
}

std::string ServedUnit::describe() const {
  const std::string events = replay_ ? ", act " + replay_->where() : "";
  return part_.bucket->name + events + ", " + controller_.describe();
}

}  // namespace taxon::exchange
