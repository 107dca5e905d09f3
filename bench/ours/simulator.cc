// How fast the virtual world is: bench_simulator CASE, where CASE is a row of kCases. Runs it once and prints
// one line of JSON with wall and virtual seconds, messages, events, and the peak of memory.
#include <sys/resource.h>

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "comm/collectives.h"
#include "sim/world.h"
#include "tensor/arena.h"

namespace taxon::bench {
namespace {

using task::Task;

constexpr std::size_t kVggParameters = 132'863'336;  // VGG-A: Simonyan & Zisserman, configuration A
constexpr std::size_t kVggBytes = kVggParameters * 4;

/// 10 Gbit/s between hosts, 100 GB/s and as many ranks as asked inside each.
plan::ClusterModel cluster_of(int hosts, int devices) {
  plan::HostModel host;
  host.count = hosts;
  host.devices = devices;
  host.device = {.flops = 10e12, .memory_bandwidth = 900e9};
  host.inside = {.latency = 2e-6, .overhead = 1e-6, .bandwidth = 100e9, .per_rank = true, .eager = 8192};
  host.network = {.latency = 20e-6, .overhead = 5e-6, .bandwidth = 1.25e9, .eager = 8192};
  return {.hosts = {host}};
}

std::vector<Rank> ranks(int first, int count, int stride = 1) {
  std::vector<Rank> all;
  for (int i = 0; i < count; ++i) all.emplace_back(first + i * stride);
  return all;
}

/// Every rank keeps four messages on their way to its neighbour.
Task<void> stream(comm::Runtime& doors) {
  constexpr std::size_t kInFlight = 4;
  constexpr std::uint32_t kMessages = 40'000;
  const int size = doors.world_size(), rank = doors.rank().value();
  const Rank next((rank + 1) % size), before((rank + size - 1) % size);
  std::array<std::optional<net::SendOp>, kInFlight> sends;
  std::array<std::optional<net::RecvOp>, kInFlight> receives;
  for (std::uint32_t i = 0; i < kMessages + kInFlight; ++i) {
    auto& send = sends[i % kInFlight];
    auto& receive = receives[i % kInFlight];
    if (send) {
      net::SendOp& one = *send;
      co_await one;
    }
    if (receive) {
      net::RecvOp& one = *receive;
      co_await one;
    }
    send.reset();
    receive.reset();
    if (i >= kMessages) continue;
    net::Tag tag{.sequence = i};
    receive.emplace(doors.transport, before, tag, View::phantom(1 << 17), DType::Float32);
    send.emplace(doors.transport, next, tag, ConstView::phantom(1 << 17), DType::Float32);
  }
}

Task<void> use(comm::Communicator* group, net::Operation operation, View data) {
  comm::Call call{data, DType::Float32};
  auto done = comm::find_row(operation, "ring").run(*group, call);
  co_await done;
}

Task<void> ring(comm::Runtime& doors) {
  comm::Communicator world(doors, "world", ranks(0, doors.world_size()));
  tensor::Arena gradients(doors.transport, DType::Float32, kVggParameters);
  co_await use(&world, net::Operation::AllReduce, gradients.bytes());
}

/// Sums inside the host, of the parts between hosts, and spreads inside.
Task<void> hierarchical(comm::Runtime& doors) {
  constexpr int kDevices = 8;
  const int rank = doors.rank().value(), place = rank % kDevices;
  comm::Communicator node(doors, "node", ranks(rank - place, kDevices));
  comm::Communicator across(doors, "across", ranks(place, doors.world_size() / kDevices, kDevices));
  tensor::Arena gradients(doors.transport, DType::Float32, kVggParameters);
  co_await use(&node, net::Operation::ReduceScatter, gradients.bytes());
  const Range own = part({0, kVggParameters}, kDevices, static_cast<std::size_t>(place));
  co_await use(&across, net::Operation::AllReduce, gradients.bytes(own));
  co_await use(&node, net::Operation::AllGather, gradients.bytes());
}

/// The groups of a large job get to know each other, agree on something small, and sum.
Task<void> large_job(comm::Runtime& doors) {
  comm::Communicator world(doors, "world", ranks(0, doors.world_size()));
  co_await world.establish();
  std::vector<double> votes(4);
  comm::Call call{as_view(std::span(votes)), DType::Float64};
  auto vote = comm::find_row(net::Operation::AllReduce, "tree").run(world, call);
  co_await vote;
  co_await hierarchical(doors);
}

struct Case {
  std::string_view name;
  int hosts, devices;
  Task<void> (*body)(comm::Runtime&);
  sim::Collectives collectives = sim::Collectives::StepByStep;
};
constexpr Case kCases[] = {
    {"stream-128", 128, 1, stream},
    {"vgg-ring-128", 128, 1, ring},
    {"vgg-hierarchical-1024", 128, 8, hierarchical},
    {"vgg-coarse-4096", 512, 8, large_job, sim::Collectives::Coarse},
};

int run(const Case& c) {
  sim::World world(cluster_of(c.hosts, c.devices), c.hosts * c.devices,
                   {.fidelity = sim::Fidelity::Timing, .collectives = c.collectives});
  const auto start = std::chrono::steady_clock::now();
  const sim::Report report = world.run(c.body);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  if (report.failure) std::rethrow_exception(report.failure);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  nlohmann::json line{{"seconds", wall.count()},
                      {"virtual_seconds", to_seconds(report.time)},
                      {"messages", report.messages},
                      {"events", report.events},
                      {"peak_mib", usage.ru_maxrss / 1024.0},
                      {"parameter_bytes", kVggBytes}};
  std::cout << line.dump() << "\n";
  return 0;
}

}  // namespace
}  // namespace taxon::bench

int main(int argc, char** argv) {
  try {
    for (const auto& c : taxon::bench::kCases)
      if (argc == 2 && c.name == argv[1]) return taxon::bench::run(c);
  } catch (const std::exception& error) {
    std::cerr << "bench_simulator: " << error.what() << "\n";
    return 1;
  }
  std::cerr << "usage: bench_simulator CASE; there are:";
  for (const auto& c : taxon::bench::kCases) std::cerr << " " << c.name;
  std::cerr << "\n";
  return 2;
}
