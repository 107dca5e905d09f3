// How far Coarse collectives are from their steps in Timing: bench_coarse CLUSTER.yaml RANKS BYTES SITUATION
// runs every row of the table of collectives step by step and as one event, on as many of the cluster's hosts
// as it takes, and prints one line of JSON for each: the seconds until each use has ended everywhere.
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "comm/collectives.h"
#include "net/describe.h"
#include "sim/world.h"
#include "task/scope.h"
#include "tensor/arena.h"

namespace taxon::bench {
namespace {

using task::Task;

/// What is under way, and who takes part.
struct Situation {
  std::string_view name;
  int uses = 1;           // at the same time
  std::size_t ratio = 1;  // each so many times smaller than the one before
  bool across = false;    // groups of the ranks that have the same place on their hosts; otherwise one group
  double late = 0;        // seconds that the last rank comes after the others
};
constexpr Situation kSituations[] = {
    {"alone"}, {"late", 1, 1, false, 0.01}, {"four", 4}, {"unequal", 3, 8}, {"across", 1, 1, true},
};
constexpr double kStart = 10;  // seconds: everybody is ready by then

struct Job {
  const comm::CollectiveRow* row;
  const Situation* situation;
  std::size_t bytes;
  int devices;  // of a host
};

/// Of one way.
struct Outcome {
  std::vector<double> ends;  // [use]: of the last rank
  double wall = 0;
  std::uint64_t events = 0;
};

Task<void> use(comm::Communicator* group, const Job* job, comm::Call call, double* end) {
  co_await job->row->run(*group, call);
  *end = std::max(*end, to_seconds(group->runtime().executor().now() - Instant()) - kStart);
}

std::vector<Rank> members_of(const Job& job, const comm::Runtime& doors) {
  std::vector<Rank> members;
  const int stride = job.situation->across ? job.devices : 1;
  for (int rank = doors.rank().value() % stride; rank < doors.world_size(); rank += stride)
    members.emplace_back(rank);
  return members;
}

Task<void> body(comm::Runtime& doors, const Job* job, Outcome* outcome) {
  const Situation& situation = *job->situation;
  comm::Communicator group(doors, "group", members_of(*job, doors));
  co_await group.establish();
  std::vector<std::size_t> sizes;
  for (int i = 0; i < situation.uses; ++i)
    sizes.push_back(i == 0 ? job->bytes : sizes.back() / situation.ratio / 4 * 4);
  tensor::Arena data(doors.transport, DType::Float32, job->bytes / 4 * sizes.size() + 1);
  const bool last = doors.rank().value() == doors.world_size() - 1;
  task::SleepUntil ready(doors.executor(), doors.pending(),
                         Instant(from_seconds(kStart + (last ? situation.late : 0))));
  co_await ready;
  task::Scope uses(doors.pending());
  for (std::uint32_t unit = 0; unit < sizes.size(); ++unit) {
    comm::Call call{data.bytes().slice(unit * job->bytes, sizes[unit]), DType::Float32, unit};
    uses.spawn(use(&group, job, call, &outcome->ends[unit]));
  }
  co_await uses.join();
}

Outcome measure(const plan::ClusterModel& cluster, int ranks, const Job& job, sim::Collectives collectives) {
  Outcome outcome;
  outcome.ends.resize(static_cast<std::size_t>(job.situation->uses));
  sim::World world(cluster, ranks, {.fidelity = sim::Fidelity::Timing, .collectives = collectives});
  const auto start = std::chrono::steady_clock::now();
  const sim::Report report = world.run([&](comm::Runtime& doors) { return body(doors, &job, &outcome); });
  outcome.wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  outcome.events = report.events;
  if (report.failure) std::rethrow_exception(report.failure);
  return outcome;
}

std::string name_of(const comm::CollectiveRow& row) {
  net::Tag tag;
  tag.operation = row.collective;
  return net::describe_operation(tag) + " " + std::string(row.name);
}

void run(const std::string& path, int ranks, std::size_t bytes, const Situation& situation) {
  plan::ClusterModel cluster = plan::read_cluster(path);
  plan::HostModel& host = cluster.hosts.front();
  host.count = std::max(host.count, (ranks + host.devices - 1) / host.devices);
  for (const comm::CollectiveRow& row : comm::collective_table()) {
    if (!row.applies({ranks, bytes, false})) continue;
    const Job job{&row, &situation, bytes / 4 * 4, host.devices};
    const Outcome timing = measure(cluster, ranks, job, sim::Collectives::StepByStep);
    const Outcome coarse = measure(cluster, ranks, job, sim::Collectives::Coarse);
    nlohmann::json line{{"row", name_of(row)},           {"timing", timing.ends},
                        {"coarse", coarse.ends},         {"timing_wall", timing.wall},
                        {"coarse_wall", coarse.wall},    {"timing_events", timing.events},
                        {"coarse_events", coarse.events}};
    std::cout << line.dump() << std::endl;
  }
}

}  // namespace
}  // namespace taxon::bench

int main(int argc, char** argv) {
  try {
    for (const auto& situation : taxon::bench::kSituations)
      if (argc == 5 && situation.name == argv[4]) {
        taxon::bench::run(argv[1], std::stoi(argv[2]), static_cast<std::size_t>(std::stod(argv[3])),
                          situation);
        return 0;
      }
  } catch (const std::exception& error) {
    std::cerr << "bench_coarse: " << error.what() << "\n";
    return 1;
  }
  std::cerr << "usage: bench_coarse CLUSTER.yaml RANKS BYTES SITUATION; situations:";
  for (const auto& situation : taxon::bench::kSituations) std::cerr << " " << situation.name;
  std::cerr << "\n";
  return 2;
}
