#include "sim/world.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "control/diagnose.h"
#include "sim/coarse.h"
#include "sim/device.h"
#include "sim/network.h"

namespace taxon::sim {
namespace {

/// A rank's doors.
struct RankDoors {
  comm::FlightRecorder recorder;
  VirtualDevice device;
  comm::Runtime runtime;
  RankDoors(net::Transport& transport, EventQueue& queue, Faults& faults, DeviceOptions device_options,
            comm::CollectiveExecutor& carrier, const WorldOptions& options)
      : recorder(options.recorder),
        device(queue, faults, std::move(device_options)),
        runtime{transport, device, recorder, carrier} {}
};

std::vector<LinkUse> links_of(const Wiring& wiring, Instant now) {
  std::vector<LinkUse> uses;
  for (const Link& link : wiring.links())
    uses.push_back({link.name(), link.messages(), link.bytes(), link.busy(now)});
  return uses;
}

}  // namespace

struct World::Parts {
  plan::ClusterModel cluster;
  WorldOptions options;
  EventQueue queue;
  Wiring wiring;
  Faults faults;
  std::vector<std::unique_ptr<Machine>> machines;
  Network network;
  std::unique_ptr<Coarse> coarse;  // null: collectives go step by step
  data::MemoryStorage storage;
  std::vector<std::unique_ptr<RankDoors>> places;
  bool used = false;

  Parts(plan::ClusterModel model, int ranks, const WorldOptions& options)
      : cluster(std::move(model)),
        options(options),
        wiring(cluster, ranks),
        faults(cluster, options.seed),
        network(queue, wiring, faults, ranks,
                {.phantom_above = options.fidelity == Fidelity::Timing ? options.phantom_above : SIZE_MAX,
                 .timeline = options.timeline}) {
    if (options.collectives == Collectives::Coarse) coarse = std::make_unique<Coarse>(queue, wiring, faults);
    add_devices(ranks);
  }
  comm::CollectiveExecutor& carrier() { return coarse ? *coarse : comm::step_by_step(); }

 private:
  /// The threads of a host's ranks: on no machine where processors are not modelled.
  struct HostSeats {
    Seat compute, other;
  };

  HostSeats seats(const plan::HostModel& model, Machine* machine, std::size_t host) const {
    if (machine == nullptr) return {};
    const bool quota = model.quota_period > 0;
    const double own = model.cores / model.devices;
    const double wanted = model.device.cores > 0 ? model.device.cores : quota ? std::ceil(own) : own;
    // Under a quota work runs at full speed until it stands still; otherwise its host has no more to give.
    auto seat = [&](double cores) {
      return Seat{machine, host, quota ? cores : std::min(cores, model.cores)};
    };
    return {seat(wanted), seat(1)};
  }

  /// Of each host.
  std::vector<HostSeats> add_machines() {
    std::map<std::string, Machine*> shared;
    for (const plan::MachineModel& model : cluster.machines) {
      machines.push_back(std::make_unique<Machine>(queue, model.cores));
      shared[model.name] = machines.back().get();
    }
    Rng phases(options.seed, "quota phase");
    std::vector<HostSeats> all;
    for (const plan::HostPlace& place : plan::expand_hosts(cluster)) {
      const plan::HostModel& model = *place.model;
      Machine* machine = nullptr;
      std::size_t host = 0;
      if (model.cores > 0) {
        if (model.machine.empty())  // what a quota's machine has besides, nobody said
          machines.push_back(std::make_unique<Machine>(queue, model.quota_period > 0 ? 1e6 : model.cores));
        machine = model.machine.empty() ? machines.back().get() : shared.at(model.machine);
        const double phase = phases.uniform() * model.quota_period;
        host = machine->add_host({model.cores, from_seconds(model.quota_period), from_seconds(phase)});
      }
      all.push_back(seats(model, machine, host));
    }
    return all;
  }

  void add_devices(int ranks) {
    const std::vector<HostSeats> hosts = add_machines();
    for (int rank = 0; rank < ranks; ++rank) {
      const int host = wiring.host(Rank(rank));
      const HostSeats& seats = hosts[static_cast<std::size_t>(host)];
      DeviceOptions device{.fidelity = options.fidelity,
                           .flops = wiring.place(Rank(rank)).model->device.flops,
                           .launch = from_seconds(wiring.place(Rank(rank)).model->device.launch),
                           .memory = &wiring.memory(Rank(rank)),
                           .target = {rank, host},
                           .compute = seats.compute,
                           .other = seats.other,
                           .timeline = options.timeline};
      places.push_back(std::make_unique<RankDoors>(network.transport(Rank(rank)), queue, faults,
                                                   std::move(device), carrier(), options));
      network.set_thread(Rank(rank), places.back()->device.thread(tensor::Stream::Exchange));
    }
  }
};

/// One run: starts the ranks, kills some, tells the others, and notices when nothing can happen any more.
class World::Run final : private Action {
 public:
  Run(Parts& parts, const RankBody& body) : parts_(parts), body_(body), ended_(size()) {
    report_.ranks.resize(size());
  }

  Report run() {
    for (const Faults::Kill& kill : parts_.faults.kills())
      if (static_cast<std::size_t>(kill.rank) < size())
        parts_.queue.at(kill.at, *this, kKill | static_cast<std::uint64_t>(kill.rank));
    live_ = size();
    for (std::size_t rank = 0; rank < size(); ++rank) run_rank(this, static_cast<int>(rank));
    const Instant limit(std::min(parts_.options.limit, kLongest - Duration(1)));
    while (live_ > 0 && parts_.queue.step(limit)) continue;
    if (live_ > 0) parts_.options.limit > kLongest && !parts_.queue.empty() ? out_of_time() : stuck();
    while (parts_.queue.step()) continue;  // what is still on its way; a late kill finds nobody
    TAXON_CHECK(live_ == 0, live_, " ranks don't end although all they wait for was cancelled");
    return finish();
  }

 private:
  struct Root {
    struct promise_type {
      Root get_return_object() { return {}; }
      std::suspend_never initial_suspend() noexcept { return {}; }
      std::suspend_never final_suspend() noexcept { return {}; }
      void return_void() noexcept {}
      void unhandled_exception() noexcept { std::terminate(); }
    };
  };
  static constexpr std::uint64_t kKill = std::uint64_t{1} << 32, kTell = std::uint64_t{1} << 33,
                                 kSpare = std::uint64_t{1} << 34;

  std::size_t size() const { return parts_.places.size(); }
  task::PendingOps& pending(std::size_t rank) { return parts_.places[rank]->runtime.pending(); }

  static Root run_rank(Run* run, int rank) {
    std::exception_ptr error;
    try {
      co_await run->body_(run->parts_.places[static_cast<std::size_t>(rank)]->runtime);
    } catch (...) {
      error = std::current_exception();
    }
    run->ended(rank, error);
  }

  void ended(int rank, std::exception_ptr error) {
    auto index = static_cast<std::size_t>(rank);
    // The network may notice a loss before the rank has heard of it: as in a real process, who was first
    // counts.
    if (error && announced_ && is_echo(error)) error = told_;
    ended_[index] = true;
    report_.ranks[index].end = parts_.queue.now();
    report_.ranks[index].error = error;
    last_end_ = parts_.queue.now();
    --live_;
    if (!error || announced_ || report_.ranks[index].killed) return;
    if (const auto culprit = lost_behind(error))
      announce(culprit->value(), error, control::PeerLost{*culprit, "and could not be done without"});
    else
      announce(rank, error, aborted(rank, error));
  }

  void happen(std::uint64_t argument) override {
    if ((argument & kTell) != 0) return tell();
    if ((argument & kSpare) != 0) return tell_of_spared(static_cast<std::size_t>(argument & 0xffffffffU));
    auto rank = static_cast<int>(argument & 0xffffffffU);
    auto index = static_cast<std::size_t>(rank);
    if (ended_[index]) return;
    control::Event lost = control::PeerLost{
        Rank(rank), fmt::format("killed at {:.6f} s", to_seconds(parts_.queue.now() - Instant()))};
    report_.ranks[index].killed = true;
    parts_.network.kill(Rank(rank));
    auto error = std::make_exception_ptr(control::error_of(lost));
    const auto& expendable = parts_.options.expendable;
    if (std::find(expendable.begin(), expendable.end(), Rank(rank)) != expendable.end()) {
      failures_[index] = error;
      parts_.queue.at(parts_.queue.now() + from_seconds(parts_.cluster.detection), *this,
                      kSpare | static_cast<std::uint64_t>(rank));
    } else if (!announced_) {
      announce(rank, error, lost);
    }
    pending(index).cancel(error);
  }

  void tell_of_spared(std::size_t lost) {
    for (std::size_t rank = 0; rank < size(); ++rank)
      if (!ended_[rank] && !announced_)
        parts_.options.lost(Rank(static_cast<std::int32_t>(rank)), Rank(static_cast<std::int32_t>(lost)),
                            failures_[lost]);
  }

  /// Failures that are usually the consequence of somebody else's.
  static bool is_echo(std::exception_ptr error) {
    try {
      std::rethrow_exception(error);
    } catch (const Error& known) {
      return known.kind() == ErrorKind::Transport || known.kind() == ErrorKind::PeerLost;
    } catch (...) {
      return false;
    }
  }

  /// The killed rank that a failure names, if it does.
  std::optional<Rank> lost_behind(std::exception_ptr error) const {
    try {
      std::rethrow_exception(error);
    } catch (const Error& known) {
      const auto rank = known.context().rank;
      if (known.kind() == ErrorKind::PeerLost && rank &&
          report_.ranks.at(static_cast<std::size_t>(rank->value())).killed)
        return rank;
    } catch (...) {
    }
    return {};
  }

  static control::Event aborted(int rank, std::exception_ptr error) {
    try {
      std::rethrow_exception(error);
    } catch (const Error& known) {
      return control::Aborted{Rank(rank), known.kind(), known.what()};
    } catch (const std::exception& other) {
      return control::Aborted{Rank(rank), ErrorKind::Internal, other.what()};
    } catch (...) {
      return control::Aborted{Rank(rank), ErrorKind::Internal, "unknown failure"};
    }
  }

  /// The first failure counts; the other ranks hear of it.
  void announce(int culprit, std::exception_ptr error, const control::Event& event) {
    announced_ = true;
    report_.failure = error;
    report_.first_culprit = Rank(culprit);
    told_ = std::make_exception_ptr(control::error_of(event));
    parts_.queue.at(parts_.queue.now() + from_seconds(parts_.cluster.detection), *this, kTell);
  }

  void tell() {
    for (std::size_t rank = 0; rank < size(); ++rank)
      if (!ended_[rank]) pending(rank).cancel(told_);
  }

  void stuck() {
    control::WaitPicture picture;
    picture.world_size = static_cast<int>(size());
    picture.threshold = 0;
    for (std::size_t rank = 0; rank < size(); ++rank) {
      if (ended_[rank]) {
        picture.left.insert(Rank(static_cast<std::int32_t>(rank)));
        continue;
      }
      if (auto all = control::reported(pending(rank).snapshot(), parts_.queue.now()); !all.empty())
        picture.waits[Rank(static_cast<std::int32_t>(rank))] = std::move(all);
    }
    report_.hang = control::diagnose(picture);
    if (!report_.hang) report_.hang = control::HangReport{{"nothing moves, and no rank says why"}, {}};
    auto error = std::make_exception_ptr(
        Error(ErrorKind::Deadline,
              fmt::format("The run can never finish:\n{}", fmt::join(report_.hang->lines, "\n"))));
    if (!report_.failure && !report_.hang->culprits.empty())
      report_.first_culprit = report_.hang->culprits.front();
    give_up(error);
  }

  /// Everything that still happens does so in the last instant.
  void out_of_time() {
    give_up(std::make_exception_ptr(
        Error(ErrorKind::Usage,
              fmt::format("The run outlasts virtual time, which ends after {:.0f} days: is a figure of the "
                          "cluster, the profile or the recipe without its unit?",
                          to_seconds(kLongest) / 86400))));
  }

  void give_up(const std::exception_ptr& error) {
    if (!report_.failure) report_.failure = error;
    announced_ = true;
    told_ = error;
    tell();
  }

  Report finish() {
    // A real receiver refuses them, which ends its run. After a failure regions may be gone.
    if (!report_.failure && parts_.network.stray_puts() > 0)
      report_.failure = std::make_exception_ptr(
          Error(ErrorKind::Transport,
                fmt::format("{} puts lay in no region of their receiver", parts_.network.stray_puts())));
    report_.time = last_end_ - Instant();
    report_.events = parts_.queue.events();
    report_.trace = parts_.queue.trace();
    report_.messages = parts_.network.delivered();
    report_.links = links_of(parts_.wiring, parts_.queue.now());
    for (std::size_t rank = 0; rank < size(); ++rank) {
      const VirtualDevice& device = parts_.places[rank]->device;
      report_.ranks[rank].compute = device.busy(tensor::Stream::Compute);
      report_.ranks[rank].exchange = device.busy(tensor::Stream::Exchange);
      if (parts_.coarse)
        report_.ranks[rank].exchange += parts_.coarse->summing(Rank(static_cast<std::int32_t>(rank)));
      report_.ranks[rank].data = device.busy(tensor::Stream::Data);
    }
    return std::move(report_);
  }

  Parts& parts_;
  const RankBody& body_;
  Report report_;
  std::vector<bool> ended_;
  std::size_t live_ = 0;
  Instant last_end_{};
  bool announced_ = false;
  std::exception_ptr told_;
  std::map<std::size_t, std::exception_ptr> failures_;  // of spared ranks
};

World::World(plan::ClusterModel cluster, int ranks, WorldOptions options) {
  auto problems = plan::cluster_problems(cluster, ranks);
  TAXON_CHECK(ranks > 0 && problems.empty(), problems.empty() ? "ranks=0" : problems.front());
  parts_ = std::make_unique<Parts>(std::move(cluster), ranks, options);
}

World::~World() = default;

int World::size() const { return static_cast<int>(parts_->places.size()); }
comm::Runtime& World::runtime(Rank rank) {
  return parts_->places.at(static_cast<std::size_t>(rank.value()))->runtime;
}
data::MemoryStorage& World::storage() { return parts_->storage; }
std::vector<LinkUse> World::links() const { return links_of(parts_->wiring, parts_->queue.now()); }

Report World::run(const RankBody& body) {
  TAXON_CHECK(!parts_->used, "a world runs once");
  parts_->used = true;
  Run run(*parts_, body);
  return run.run();
}

}  // namespace taxon::sim
