// PCL-DNN's step in the virtual world: bench_pcl_dnn JSON, with the keys of Setting. Every rank computes
// layer by layer for as long as one node's rate says, and exchanges by the collectives of comm/ over the
// cluster's links: message by message, in Timing. Prints a line of JSON with the seconds of a step.
//
// After Das et al., "Distributed deep learning using synchronous stochastic gradient descent", arXiv
// 1602.06709: gradients of weights before gradients of inputs; part-reduce, update of the own strip and
// part-broadcast beside the computation; the next step's forward pass waits for each layer by itself; layers
// of groups gather inputs forward and reduce their gradients backward.
#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "comm/collectives.h"
#include "exchange/bucket_scheduler.h"
#include "parallel/balance.h"
#include "plan/cluster.h"
#include "sim/world.h"
#include "task/event.h"
#include "task/scope.h"
#include "tensor/arena.h"

namespace taxon::bench {
namespace {

using task::Task;
constexpr int kSteps = 5;  // the last but one is measured: nothing of the beginning is left

struct Setting {
  std::string cluster, network;
  int workers = 1;
  std::int64_t batch = 1;
  double rate = 1;        // samples per second of one node, of all passes
  double half_batch = 0;  // samples with which a node reaches half its rate: what small batches lose
  std::string split;      // data: all layers; linear: linear layers by the equations; all: every layer
  std::string order;      // fifo: as gradients are complete; priority: first layers overtake
  double bandwidth_factor = 1, latency_factor = 1;
};

/// What one rank does with a layer.
struct LayerPlan {
  int groups = 1, parts = 1;  // N / groups members of a group
  std::size_t weights = 0;    // elements of a part
  std::size_t gathered = 0;   // elements of a group's inputs; 0: nothing is gathered
  std::size_t crossed = 0;    // elements that a member has of what the layer before made, where its groups
                              // are others; 0: they are the same
  int crossed_parts = 1;      // of the larger group of the two
  Duration pass{0};           // of each of three
};

std::vector<LayerPlan> plan_layers(const parallel::Network& network, const Setting& setting) {
  const parallel::BalanceInput input{.workers = setting.workers, .batch = setting.batch};
  const auto lines = parallel::balance(network, input);
  const double samples = static_cast<double>(setting.batch) / setting.workers;
  const double seconds = (samples + setting.half_batch) / setting.rate;
  std::vector<LayerPlan> plans;
  for (const parallel::LayerBalance& line : lines) {
    const bool linear = line.layer->macs <= static_cast<double>(line.layer->weights);
    const bool divided = setting.split == "all" || (setting.split == "linear" && linear);
    LayerPlan plan;
    plan.groups = divided ? line.groups : setting.workers;
    plan.parts = setting.workers / plan.groups;
    plan.weights = static_cast<std::size_t>(parallel::parameters(*line.layer) / plan.parts);
    if (plan.parts > 1)
      plan.gathered = static_cast<std::size_t>(line.layer->exchanged * setting.batch / plan.groups);
    if (!plans.empty() && plans.back().parts > 1 && plans.back().parts != plan.parts) {
      plan.crossed = static_cast<std::size_t>(line.layer->exchanged * setting.batch / setting.workers);
      plan.crossed_parts = std::max(plans.back().parts, plan.parts);
    }
    plan.pass = from_seconds(seconds * line.layer->macs / parallel::forward_macs(network) / 3);
    plans.push_back(plan);
  }
  return plans;
}

/// One rank.
class Worker {
 public:
  Worker(comm::Runtime& doors, const std::vector<LayerPlan>& plans, bool priority,
         std::vector<double>& begins)
      : doors_(doors),
        priority_(priority),
        begins_(begins),
        scheduler_(doors, 1),
        exchanges_(doors.pending()) {
    for (std::size_t i = 0; i < plans.size(); ++i)
      layers_.push_back(std::make_unique<Layer>(doors, plans[i], i));
  }

  Task<void> run() {
    for (int step = 0; step < kSteps; ++step) {
      for (std::size_t i = 0; i < layers_.size(); ++i) {
        Layer& layer = *layers_[i];
        if (layer.ready) {
          auto wait = layer.ready->wait("layer");
          co_await wait;
        }
        if (i == 0) begins_.push_back(to_seconds(doors_.executor().now() - Instant()));
        co_await forward(&layer);
      }
      std::vector<int> keys;
      const int count = static_cast<int>(layers_.size());
      for (int i = 0; i < count; ++i) keys.push_back(priority_ ? i : count - i);
      scheduler_.begin(keys);
      for (std::size_t i = layers_.size(); i-- > 0;) co_await backward(layers_[i].get());
    }
    co_await exchanges_.join();
  }

 private:
  struct Layer {
    Layer(comm::Runtime& doors, const LayerPlan& plan, std::size_t index)
        : plan(plan),
          index(static_cast<std::uint32_t>(index)),
          group(doors, fmt::format("group{}", index), group_of(doors, plan.parts)),
          replicas(doors, fmt::format("replicas{}", index), replicas_of(doors, plan.parts)),
          crossing(doors, fmt::format("crossing{}", index), group_of(doors, plan.crossed_parts)),
          gradients(doors.transport, DType::Float32, plan.weights + 1),
          inputs(doors.transport, DType::Float32, plan.gathered + 1),
          crossed(doors.transport, DType::Float32, plan.crossed + 1) {}
    static std::vector<Rank> group_of(const comm::Runtime& doors, int parts) {
      std::vector<Rank> members;
      const int first = doors.rank().value() / parts * parts;
      for (int i = 0; i < parts; ++i) members.emplace_back(first + i);
      return members;
    }
    static std::vector<Rank> replicas_of(const comm::Runtime& doors, int parts) {
      std::vector<Rank> members;
      for (int rank = doors.rank().value() % parts; rank < doors.world_size(); rank += parts)
        members.emplace_back(rank);
      return members;
    }
    const LayerPlan plan;
    const std::uint32_t index;
    comm::Communicator group, replicas, crossing;
    tensor::Arena gradients, inputs, crossed;
    std::unique_ptr<task::Event> ready;  // the weights of the step to come are there
  };

  Task<void> compute(Duration time) {
    tensor::Kernel kernel;
    kernel.name = "pass";
    kernel.cost.measured = time;
    co_await tensor::run(doors_.device, doors_.pending(), tensor::Stream::Compute, std::move(kernel));
  }

  Task<void> collective(comm::Communicator* group, net::Operation operation, View data, std::uint32_t unit) {
    if (group->size() == 1) co_return;
    const comm::CollectiveRow& row = comm::find_row(operation, "ring");
    comm::Call call{data, DType::Float32, unit};
    co_await row.run(*group, call);
  }

  /// Every member sends each other one its part of what it has.
  Task<void> all_to_all(comm::Communicator* group, View data, std::uint32_t unit) {
    const net::Tag tag = group->begin(net::Operation::User, unit);
    const int size = group->size(), me = group->rank();
    const std::size_t bytes = data.size() / 4 / static_cast<std::size_t>(size) * 4;
    const View part = data.slice(0, bytes);
    std::vector<std::unique_ptr<net::RecvOp>> receives;
    std::vector<std::unique_ptr<net::SendOp>> sends;
    for (int distance = 1; distance < size; ++distance) {
      const Rank from = group->global((me + size - distance) % size),
                 to = group->global((me + distance) % size);
      receives.push_back(std::make_unique<net::RecvOp>(doors_.transport, from, tag, part, DType::Float32));
      sends.push_back(std::make_unique<net::SendOp>(doors_.transport, to, tag, part, DType::Float32));
    }
    for (auto& send : sends) {
      net::SendOp& one = *send;
      co_await one;
    }
    for (auto& receive : receives) {
      net::RecvOp& one = *receive;
      co_await one;
    }
  }

  Task<void> cross(Layer* layer) {
    if (layer->plan.crossed == 0) co_return;
    View data = layer->crossed.bytes();
    co_await all_to_all(&layer->crossing, data, layer->index);
  }

  Task<void> forward(Layer* layer) {
    co_await cross(layer);
    if (layer->plan.gathered > 0) {
      View data = layer->inputs.bytes();
      co_await collective(&layer->group, net::Operation::AllGather, data, layer->index);
    }
    co_await compute(layer->plan.pass);
  }

  Task<void> backward(Layer* layer) {
    co_await compute(layer->plan.pass);  // of weights
    layer->ready = std::make_unique<task::Event>(doors_.executor(), doors_.pending());
    exchanges_.spawn(reconcile(layer));
    co_await compute(layer->plan.pass);  // of inputs
    if (layer->plan.gathered > 0) {
      View data = layer->inputs.bytes();
      co_await collective(&layer->group, net::Operation::ReduceScatter, data, layer->index);
    }
    co_await cross(layer);
  }

  /// Part-reduce, update of the own strip, part-broadcast.
  Task<void> reconcile(Layer* layer) {
    if (layer->replicas.size() > 1) {
      auto enter = scheduler_.enter(static_cast<int>(layer->index), "layer");
      exchange::BucketScheduler::Admission turn = co_await enter;
      View data = layer->gradients.bytes();
      co_await collective(&layer->replicas, net::Operation::ReduceScatter, data, layer->index);
      co_await update(layer);
      co_await collective(&layer->replicas, net::Operation::AllGather, data, layer->index);
    } else {
      co_await update(layer);
    }
    layer->ready->set();
  }

  Task<void> update(Layer* layer) {
    const std::size_t own = layer->plan.weights / static_cast<std::size_t>(layer->replicas.size());
    tensor::Kernel kernel;
    kernel.name = "update";
    kernel.cost = {.flops = 4.0 * static_cast<double>(own), .bytes = 5 * 4 * own};
    co_await tensor::run(doors_.device, doors_.pending(), tensor::Stream::Exchange, std::move(kernel));
  }

  comm::Runtime& doors_;
  const bool priority_;
  std::vector<double>& begins_;
  std::vector<std::unique_ptr<Layer>> layers_;
  exchange::BucketScheduler scheduler_;
  task::Scope exchanges_;
};

Task<void> body(comm::Runtime& doors, const std::vector<LayerPlan>* plans, bool priority,
                std::vector<std::vector<double>>* begins) {
  Worker worker(doors, *plans, priority, (*begins)[static_cast<std::size_t>(doors.rank().value())]);
  co_await worker.run();
}

/// Of a rank and a step, by the equations, of which a member's own part never leaves it.
double sent_bytes(const LayerPlan& plan) {
  const auto others = [](double parts) { return (parts - 1) / parts; };
  const double twice = 2 * 4;  // there and back, of float32
  return twice * (static_cast<double>(plan.gathered) * others(plan.parts) +
                  static_cast<double>(plan.weights) * others(plan.groups) +
                  static_cast<double>(plan.crossed) * others(plan.crossed_parts));
}

Setting read_setting(const nlohmann::json& json) {
  return {.cluster = json.at("cluster"),
          .network = json.at("network"),
          .workers = json.at("workers"),
          .batch = json.at("batch"),
          .rate = json.at("rate"),
          .half_batch = json.value("half_batch", 0.0),
          .split = json.at("split"),
          .order = json.at("order"),
          .bandwidth_factor = json.value("bandwidth_factor", 1.0),
          .latency_factor = json.value("latency_factor", 1.0)};
}

int run(const Setting& setting) {
  plan::ClusterModel cluster = plan::read_cluster(setting.cluster, setting.workers);
  for (plan::HostModel& host : cluster.hosts) {
    host.network.bandwidth *= setting.bandwidth_factor;
    host.network.latency *= setting.latency_factor;
    host.network.overhead *= setting.latency_factor;
  }
  const parallel::Network network = parallel::make_network(parallel::find_network(setting.network));
  const std::vector<LayerPlan> plans = plan_layers(network, setting);
  std::vector<std::vector<double>> begins(static_cast<std::size_t>(setting.workers));
  sim::World world(cluster, setting.workers, {.fidelity = sim::Fidelity::Timing});
  const auto start = std::chrono::steady_clock::now();
  const sim::Report report = world.run(
      [&](comm::Runtime& doors) { return body(doors, &plans, setting.order == "priority", &begins); });
  if (report.failure) std::rethrow_exception(report.failure);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  double step = 0;  // of the slowest rank
  for (const auto& times : begins) step = std::max(step, times[kSteps - 1] - times[kSteps - 2]);
  Duration passes{0};
  std::vector<int> groups;
  double bytes = 0, expected = 0;
  for (const LayerPlan& plan : plans) {
    passes += 3 * plan.pass;
    groups.push_back(plan.groups);
    expected += sent_bytes(plan);
  }
  // Each message passes its sender's end of a link and its receiver's.
  for (const sim::LinkUse& link : report.links) bytes += static_cast<double>(link.bytes) / 2;
  const double alone = (static_cast<double>(setting.batch) + setting.half_batch) / setting.rate;
  const nlohmann::json line{{"step_seconds", step},       {"compute_seconds", to_seconds(passes)},
                            {"one_node_seconds", alone},  {"speedup", alone / step},
                            {"groups", groups},           {"sent_bytes", bytes / setting.workers / kSteps},
                            {"expected_bytes", expected}, {"messages", report.messages},
                            {"trace", report.trace},      {"wall_seconds", wall.count()}};
  std::cout << line.dump() << "\n";
  return 0;
}

}  // namespace
}  // namespace taxon::bench

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: bench_pcl_dnn JSON, as bench/pcl_dnn.py makes it\n";
    return 2;
  }
  try {
    return taxon::bench::run(taxon::bench::read_setting(nlohmann::json::parse(argv[1])));
  } catch (const std::exception& error) {
    std::cerr << "bench_pcl_dnn: " << error.what() << "\n";
    return 1;
  }
}
