#include "exchange/server/parameter_server.h"

#include <fmt/format.h>

#include "comm/told.h"

namespace taxon::exchange {

ParameterServer::ParameterServer(comm::Runtime& runtime, Setup setup)
    : runtime_(runtime),
      setup_(std::move(setup)),
      update_(*setup_.group, *setup_.weights, std::move(setup_.owner), std::move(setup_.coders)),
      updates_(DType::Float64, setup_.layout->buckets.size()),
      listeners_(runtime.pending()) {
  const Roles& roles = setup_.roles;
  int server = 0;
  while (roles.member_of_server(server) != setup_.group->rank()) ++server;
  std::vector<OwnedPart*> parts;
  std::vector<std::size_t> wholes;
  for (std::size_t b = 0; b < setup_.layout->buckets.size(); ++b) {
    const Bucket& bucket = setup_.layout->buckets[b];
    const Range range = setup_.ranges.empty() ? bucket.range : setup_.ranges[b];
    units_.push_back(std::make_unique<ServedUnit>(setup_, update_, bucket, roles.part_of(range, server),
                                                  &updates_.values<double>({b, 1}).front(),
                                                  b == 0 ? &counts_ : nullptr));
    parts.push_back(&units_.back()->part());
    wholes.push_back(range.size);
  }
  update_.prepare(std::move(parts), wholes, setup_.layout->arena.slots(), roles.workers(), setup_.late);
  for (int worker = 0; worker < roles.workers(); ++worker)
    workers_.push_back({worker, runtime.transport.path(setup_.group->global(worker)).shared_memory});
  for (auto& unit : units_) unit->attach(&workers_);
  std::vector<ServerChannel*> channels;
  for (const ChannelPeer& worker : workers_)
    for (auto& unit : units_) channels.push_back(&unit->channel(worker.member));
  ServerChannel::open_windows(runtime.transport, channels, &workers_, &windows_);
}

std::vector<Range> ParameterServer::owned() const {
  std::vector<Range> ranges;
  for (const auto& unit : units_) ranges.push_back(unit->part().range);
  return ranges;
}

task::Task<void> ParameterServer::open() {
  for (auto& unit : units_) {
    co_await update_.begin(&unit->part());
  }
}

void ParameterServer::serve(std::int64_t version, std::int64_t samples) {
  for (auto& unit : units_) unit->set_out(version, samples);
  for (const ChannelPeer& peer : workers_) {
    const int worker = peer.member;
    for (auto& unit : units_) listeners_.spawn(while_here(worker, unit->serve(worker), unit.get()));
    listeners_.spawn(while_here(worker, handle_control(worker), nullptr));
  }
}

task::Task<void> ParameterServer::quiet() {
  for (auto& unit : units_) {
    co_await unit->quiet();
  }
}

task::Task<void> ParameterServer::closed() {
  co_await listeners_.join();
  for (const auto& unit : units_) unit->finish();
}

task::Task<void> ParameterServer::abandon(std::exception_ptr why) {
  if (!runtime_.pending().cancelled()) runtime_.pending().cancel(why);
  try {
    co_await listeners_.join();
  } catch (...) {
  }
}

/// Until the worker closes, or is lost where the others can do without it: then `unit`, if any, does too.
task::Task<void> ParameterServer::while_here(int worker, task::Task<void> serving, ServedUnit* unit) {
  std::exception_ptr error;
  try {
    co_await serving;
  } catch (...) {
    error = std::current_exception();
  }
  if (!error) co_return;
  if (!comm::is_expendable_loss(setup_.failures, setup_.group->global(worker), error))
    std::rethrow_exception(error);
  if (!unit) co_return;
  co_await unit->lose(worker);
}

/// A pause is over, and so is the end, when all units know.
task::Task<void> ParameterServer::handle_control(int worker) {
  Channel channel(*setup_.group, worker, kServerControlUnit, 0, setup_.failures);
  for (std::int64_t number = 0;; ++number, channel.next_use()) {
    ServerWire::Head head{};
    const View said = as_view(std::span<std::int64_t>(head));
    co_await channel.hear(ServerWire::Control, said, DType::Int64);
    const std::int64_t kind = head[ServerWire::KindOf];
    if (kind != ServerWire::Pause && kind != ServerWire::Close)
      throw comm::told_wrong(channel.rank(), "pause", fmt::format("a word of kind {}", kind));
    for (auto& unit : units_) unit->ask_pause(worker);
    for (auto& unit : units_) {
      co_await unit->pause(worker, number);
    }
    head = {};
    co_await channel.say(ServerWire::ControlDone, said, DType::Int64);
    if (kind == ServerWire::Close) co_return;
  }
}

std::string ParameterServer::path_of(int worker) const {
  const net::Path path = runtime_.transport.path(setup_.group->global(worker));
  const bool placed = workers_[static_cast<std::size_t>(worker)].shares_memory && windows_.size() > 0;
  return std::string(placed ? "written into place" : "messages") + ", through " + path.name;
}

}  // namespace taxon::exchange
