#include "sim/wiring.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace taxon::sim {

Wiring::Cost Wiring::cost(const plan::LinkModel& link) {
  auto handling = [](double time, double speed) {
    return HandlingCost{from_seconds(time), speed > 0 ? 1e12 / speed : 0};
  };
  return {from_seconds(link.overhead),
          from_seconds(link.latency),
          static_cast<std::size_t>(link.eager),
          static_cast<std::size_t>(link.fragment),
          handling(link.send_time, link.send_speed),
          handling(link.receive_time, link.receive_speed)};
}

Wiring::Ends Wiring::ends(const std::string& name, const plan::LinkModel& link) {
  if (link.bandwidth <= 0) return {};
  if (!link.full_duplex) {
    Link* both = add(name, link.bandwidth, link.burst);
    return {both, both};
  }
  Link* out = add(name + " out", link.bandwidth, link.burst);
  return {out, add(name + " in", link.bandwidth, link.burst)};
}

Wiring::Wiring(const plan::ClusterModel& cluster, int ranks) {
  const std::vector<plan::HostPlace> places = plan::expand_hosts(cluster);
  for (const plan::HostPlace& place : places) {
    if (place.first_rank >= ranks) break;
    const plan::HostModel& model = *place.model;
    Host host{place, 0, cost(model.inside), cost(model.network), {}, {}};
    // Ranks of a host that share a link inside pass through it once: it is the host's memory.
    if (!model.inside.per_rank && model.inside.bandwidth > 0)
      host.shared_inside.out = add(place.name + " memory", model.inside.bandwidth, model.inside.burst);
    if (!model.network.per_rank) host.shared_network = ends(place.name + " network", model.network);
    for (int device = 0; device < model.devices && place.first_rank + device < ranks; ++device) {
      Seat seat{static_cast<int>(hosts_.size()), host.shared_inside, host.shared_network};
      std::string name = fmt::format("rank {}", place.first_rank + device);
      if (model.inside.per_rank) seat.inside = ends(name + " inside", model.inside);
      if (model.network.per_rank) seat.network = ends(name + " network", model.network);
      ranks_.push_back(seat);
      memories_.emplace_back(model.device);
    }
    hosts_.push_back(std::move(host));
  }
  TAXON_CHECK(static_cast<int>(ranks_.size()) == ranks, ranks, " ranks in a cluster of ",
              plan::capacity(cluster));
  add_switches(cluster.network_switch, places);
}

/// Of all hosts that are joined to them, whether they have a part in the run or not.
void Wiring::add_switches(const plan::SwitchModel& model, const std::vector<plan::HostPlace>& places) {
  if (model.oversubscription <= 1) return;
  auto rate = [&](std::size_t first, std::size_t last) {
    double sum = 0;
    for (std::size_t h = first; h < last; ++h) {
      const plan::LinkModel& link = places[h].model->network;
      sum += link.bandwidth * (link.per_rank ? places[h].model->devices : 1);
    }
    return sum / model.oversubscription;
  };
  const auto per_leaf = static_cast<std::size_t>(model.hosts_per_leaf);
  if (per_leaf == 0 || per_leaf >= places.size()) {
    if (hosts_.size() > 1) backplane_ = add("switch", rate(0, places.size()));
    return;
  }
  for (std::size_t first = 0; first < hosts_.size(); first += per_leaf) {
    const std::size_t last = std::min(first + per_leaf, places.size());
    for (std::size_t h = first; h < std::min(last, hosts_.size()); ++h)
      hosts_[h].leaf = static_cast<int>(leaves_.size());
    Link* up = add(fmt::format("leaf {} up", leaves_.size()), rate(first, last));
    leaves_.push_back({up, add(fmt::format("leaf {} down", leaves_.size()), rate(first, last))});
  }
}

Route Wiring::route(Rank from, Rank to) const {
  const Seat& sender = ranks_[index(from)];
  const Seat& receiver = ranks_[index(to)];
  const Host& source = hosts_[static_cast<std::size_t>(sender.host)];
  const Host& target = hosts_[static_cast<std::size_t>(receiver.host)];
  Route route;
  route.from = sender.host;
  route.to = receiver.host;
  std::size_t hop = 0;
  auto begins_with = [&route](const Cost& cost) {
    route.overhead = cost.overhead;
    route.eager = cost.eager;
    route.fragment = cost.fragment;
    route.send = cost.send;
  };
  if (sender.host == receiver.host) {
    route.out = sender.inside.out;
    route.then[hop] = receiver.inside.in;
    begins_with(source.inside);
    route.latency = source.inside.latency;
    route.receive = source.inside.receive;
    return route;
  }
  route.out = sender.network.out;
  begins_with(source.network);
  route.latency = std::max(source.network.latency, target.network.latency);
  route.receive = target.network.receive;
  if (backplane_ != nullptr) route.then[hop++] = backplane_;
  if (!leaves_.empty() && source.leaf != target.leaf) {
    route.then[hop++] = leaves_[static_cast<std::size_t>(source.leaf)].out;
    route.then[hop++] = leaves_[static_cast<std::size_t>(target.leaf)].in;
  }
  TAXON_CHECK(hop < route.then.size(), "hop=", hop);
  route.then[hop] = receiver.network.in;
  return route;
}

}  // namespace taxon::sim
