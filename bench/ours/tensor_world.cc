// What four ways of moving tensors would make of training with parameter servers on 8 servers with 100
// Gbit/s, simulated: bench_tensor_world MODEL MICROSECONDS, the compute of a step. Every server holds a
// worker and a parameter server; variables go round robin to the parameter servers. A step is compute, all
// gradients to their servers, and, once all workers' gradients of a variable are there, the variable back to
// all. Prints one line of JSON for each way, with the seconds of a step and
// the least that the network allows.
//
// A tensor is copied before it is sent, and after it has arrived: by a thread of each connection and
// direction, which is all that copies can gain by threads, or by one thread of each process and direction.
// Arithmetic takes no time.
#include <array>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "side/steps.h"
#include "sim/world.h"
#include "task/event.h"
#include "task/scope.h"

namespace taxon::bench {
namespace {

using task::Task;

constexpr int kHosts = 8, kSteps = 3;
constexpr double kNetwork = 12.5e9;  // bytes per second
constexpr double kCopy = 5e9;

/// What a way costs the processors, beside the wire.
struct Way {
  std::string_view name;
  double sender_copies, receiver_copies;  // passes over the tensor
  double message;                         // seconds, at the sender
};
constexpr Way kWays[] = {
    {"gRPC", 2, 2, 50e-6},       // serialised, into the socket; out of it, deserialised
    {"gRPC.RDMA", 2, 1, 50e-6},  // serialised, into the ring; out of it
    {"RDMA.cp", 1, 0, 3e-6},     // into registered memory
    {"RDMA.zerocp", 0, 0, 3e-6},
};

plan::ClusterModel cluster() {
  plan::HostModel host;
  host.count = kHosts;
  host.devices = 2;
  host.device = {.flops = 10e12, .memory_bandwidth = 100e9};
  // A worker reaches the server beside it as it reaches the others.
  host.network = {.latency = 2e-6, .bandwidth = kNetwork};
  host.inside = host.network;
  return {.hosts = {host}};
}

/// The job as all of its ranks see it; one thread runs them.
struct Job {
  const Way& way;
  std::vector<std::size_t> variables;  // elements
  Duration compute;
  bool one_thread = false;
  std::vector<Instant> ends = std::vector<Instant>(kSteps);             // of steps, by the last worker
  std::vector<std::array<Instant, 2>> busy = {2 * kHosts, {{{}, {}}}};  // [rank]: the one thread, until then

  bool is_at(std::size_t v, int server) const { return v % kHosts == static_cast<std::size_t>(server); }
  std::size_t bytes(std::size_t v) const { return variables[v] * sizeof(float); }
  Duration sending(std::size_t v) const {
    return from_seconds(way.message + way.sender_copies * static_cast<double>(bytes(v)) / kCopy);
  }
  Duration receiving(std::size_t v) const {
    return from_seconds(way.receiver_copies * static_cast<double>(bytes(v)) / kCopy);
  }
};

enum Message : std::uint32_t { Gradient, Variable };

net::Tag tag_of(Message message, std::size_t v, int step) {
  return {
      .unit = static_cast<std::uint32_t>(v), .sequence = static_cast<std::uint32_t>(step), .round = message};
}
Rank worker(int host) { return Rank(2 * host); }
Rank server(int host) { return Rank(2 * host + 1); }

enum Direction { Out, In };

Task<void> spend(comm::Runtime* doors, Duration time) {
  task::SleepUntil until(doors->executor(), doors->pending(), doors->executor().now() + time);
  co_await until;
}

/// Copies; when its turn comes, where one thread makes them all.
Task<void> handle(comm::Runtime* doors, Job* job, Direction direction, Duration time) {
  const Instant now = doors->executor().now();
  Instant& busy = job->busy[static_cast<std::size_t>(doors->rank().value())][direction];
  if (job->one_thread) {
    busy = std::max(busy, now) + time;
    time = busy - now;
  }
  return spend(doors, time);
}

Task<void> send(comm::Runtime* doors, Job* job, Rank to, net::Tag tag) {
  co_await handle(doors, job, Out, job->sending(tag.unit));
  net::SendOp sent(doors->transport, to, tag, ConstView::phantom(job->bytes(tag.unit)), DType::Float32);
  co_await sent;
}

Task<void> receive(comm::Runtime* doors, Job* job, Rank from, net::Tag tag) {
  net::RecvOp came(doors->transport, from, tag, View::phantom(job->bytes(tag.unit)), DType::Float32);
  co_await came;
  co_await handle(doors, job, In, job->receiving(tag.unit));
}

/// A worker's two halves of one connection.
Task<void> push(comm::Runtime* doors, Job* job, int host, int step) {
  for (std::size_t v = 0; v < job->variables.size(); ++v) {
    if (!job->is_at(v, host)) continue;
    co_await send(doors, job, server(host), tag_of(Gradient, v, step));
  }
}
Task<void> pull(comm::Runtime* doors, Job* job, int host, int step) {
  for (std::size_t v = 0; v < job->variables.size(); ++v) {
    if (!job->is_at(v, host)) continue;
    co_await receive(doors, job, server(host), tag_of(Variable, v, step));
  }
}

Task<void> work(comm::Runtime* doors, Job* job) {
  for (int step = 0; step < kSteps; ++step) {
    co_await spend(doors, job->compute);
    task::Scope connections(doors->pending());
    // Each worker begins with another server.
    for (int i = 0; i < kHosts; ++i) {
      const int host = (doors->rank().value() / 2 + i) % kHosts;
      connections.spawn(push(doors, job, host, step));
      connections.spawn(pull(doors, job, host, step));
    }
    co_await connections.join();
    Instant& end = job->ends[static_cast<std::size_t>(step)];
    end = std::max(end, doors->executor().now());
  }
}

/// How many gradients of each variable have come, in one step.
struct ServerState {
  std::vector<int> came;
  std::vector<std::unique_ptr<task::Event>> complete;
};

Task<void> take(comm::Runtime* doors, Job* job, ServerState* server, int host, int own, int step) {
  for (std::size_t v = 0; v < job->variables.size(); ++v) {
    if (!job->is_at(v, own)) continue;
    auto came = receive(doors, job, worker(host), tag_of(Gradient, v, step));
    co_await came;
    if (++server->came[v] == kHosts) server->complete[v]->set();
  }
}
Task<void> answer(comm::Runtime* doors, Job* job, ServerState* server, int host, int own, int step) {
  for (std::size_t v = 0; v < job->variables.size(); ++v) {
    if (!job->is_at(v, own)) continue;
    auto complete = server->complete[v]->wait("gradients");
    co_await complete;
    co_await send(doors, job, worker(host), tag_of(Variable, v, step));
  }
}

Task<void> serve(comm::Runtime* doors, Job* job) {
  const int own = doors->rank().value() / 2;
  for (int step = 0; step < kSteps; ++step) {
    ServerState server;
    server.came.resize(job->variables.size());
    for (std::size_t v = 0; v < job->variables.size(); ++v)
      server.complete.push_back(std::make_unique<task::Event>(doors->executor(), doors->pending()));
    task::Scope connections(doors->pending());
    for (int i = 0; i < kHosts; ++i) {
      const int host = (own + i) % kHosts;
      connections.spawn(take(doors, job, &server, host, own, step));
      connections.spawn(answer(doors, job, &server, host, own, step));
    }
    co_await connections.join();
  }
}

double step_seconds(Job job) {
  sim::World world(cluster(), 2 * kHosts, {.fidelity = sim::Fidelity::Timing});
  const sim::RankBody body = [&job](comm::Runtime& doors) {
    return doors.rank().value() % 2 == 0 ? work(&doors, &job) : serve(&doors, &job);
  };
  const sim::Report report = world.run(body);
  if (report.failure) std::rethrow_exception(report.failure);
  return to_seconds(job.ends[kSteps - 1] - job.ends[kSteps - 2]);
}

/// The least that a step takes: compute, and what leaves the busiest host, gradients of its worker and
/// variables of its server, at the network's rate.
double bound(const std::vector<std::size_t>& variables, Duration compute) {
  double most = 0;
  for (std::size_t host = 0; host < kHosts; ++host) {
    double bytes = 0;
    for (std::size_t v = 0; v < variables.size(); ++v)
      bytes += static_cast<double>(variables[v] * sizeof(float)) * (v % kHosts == host ? kHosts - 1 : 1);
    most = std::max(most, bytes);
  }
  return to_seconds(compute) + most / kNetwork;
}

}  // namespace
}  // namespace taxon::bench

int main(int argc, char** argv) {
  using namespace taxon;
  const std::vector<std::size_t> variables =
      argc == 3 ? bench::variables_of(argv[1]) : std::vector<std::size_t>();
  if (variables.empty()) {
    std::cerr << "usage: bench_tensor_world MODEL MICROSECONDS\n";
    return 2;
  }
  try {
    const Duration compute = from_seconds(1e-6 * std::stod(argv[2]));
    const double bound = bench::bound(variables, compute);
    for (const bool one_thread : {false, true})
      for (const bench::Way& way : bench::kWays) {
        const double seconds = bench::step_seconds({way, variables, compute, one_thread});
        nlohmann::json line{
            {"way", way.name}, {"one_thread", one_thread}, {"seconds", seconds}, {"bound", bound}};
        std::cout << line.dump() << "\n";
      }
  } catch (const std::exception& error) {
    std::cerr << "bench_tensor_world: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
