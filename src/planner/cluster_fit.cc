#include "planner/cluster_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "planner/measured.h"

namespace taxon::planner {
namespace {

/// Figures of equal hosts differ by noise.
constexpr double kEqualWithin = 0.25;
/// A machine whose ranks together reach so much of what they reach alone has cores for all of them.
constexpr double kEnough = 0.95;
/// What timing noise alone may look like.
constexpr double kLeastBurst = 32 << 10;
/// Of the processor time that a piece of a stream costs: what of it its bytes cost at least.
constexpr double kLeastShareOfBytes = 0.2;

/// Four digits: what is beyond is noise.
double rounded(double value) {
  if (value <= 0) return 0;
  const double digits = 3 - std::floor(std::log10(value)), scale = std::pow(10, std::abs(digits));
  return digits < 0 ? std::round(value / scale) * scale : std::round(value * scale) / scale;
}

template <class Items, class Figure>
double median_of(const Items& items, Figure figure) {
  std::vector<double> values;
  for (const auto& item : items) values.push_back(figure(item));
  return rounded(measured(std::move(values)).median);
}

struct Handling {
  double time = 0, speed = 0;
};

/// The costs of a piece and of a byte, from that of a small message and that of a stream. A small message may
/// wake its receiver, which pieces of a stream do not always.
Handling handling_of(double small, double stream_speed, double fragment) {
  if (stream_speed <= 0) return {small, 0};
  const double piece = fragment / stream_speed;
  const double time = std::min(small, (1 - kLeastShareOfBytes) * piece);
  return {time, fragment / (piece - time)};
}

/// How many times as much processor time bytes cost while all hosts send and receive as for this pair alone.
double crowding_of(std::span<const RankFigures> ranks, const LinkFigures& alone) {
  if (alone.shares_memory || alone.send_speed <= 0 || alone.receive_speed <= 0) return 1;
  double sum = 0;
  for (const RankFigures& rank : ranks) sum += rank.crowd;
  const double crowded = sum / static_cast<double>(ranks.size());
  return std::max(1.0, crowded / (1 / alone.send_speed + 1 / alone.receive_speed));
}

LinkFigures crowded(LinkFigures link, std::span<const RankFigures> ranks) {
  const double crowding = crowding_of(ranks, link);
  link.send_speed /= crowding;
  link.receive_speed /= crowding;
  return link;
}

plan::LinkModel link_of(const LinkFigures& measured) {
  constexpr double kWhole = 64 << 10;  // of a transport that doesn't cut messages
  const double fragment = measured.fragment > 0 ? measured.fragment : kWhole;
  const Handling send = handling_of(measured.send_time, measured.send_speed, fragment);
  const Handling receive = handling_of(measured.receive_time, measured.receive_speed, fragment);
  plan::LinkModel link;
  link.full_duplex = measured.both_ways > 0.6 * measured.bandwidth;
  link.overhead = std::max(0.0, measured.interval - std::max(send.time, receive.time));
  const double rate =
      link.full_duplex ? std::min(measured.bandwidth, measured.both_ways) : measured.bandwidth;
  link.overhead = std::min(link.overhead, 0.5 * fragment / rate);
  link.bandwidth = fragment / (fragment / rate - link.overhead);
  const double there = measured.shares_memory ? measured.signal - send.time
                                              : measured.half_round_trip - send.time - receive.time;
  link.latency = std::max(0.0, there - link.overhead);
  link.burst = measured.burst >= kLeastBurst ? std::llround(measured.burst) : 0;
  link.eager = std::llround(measured.buffered);
  link.fragment = std::llround(measured.fragment);
  link.send_time = send.time;
  link.send_speed = send.speed;
  link.receive_time = receive.time;
  link.receive_speed = receive.speed;
  return link;
}

plan::LinkModel median_link(const std::vector<plan::LinkModel>& links) {
  plan::LinkModel result;
  if (links.empty()) return result;
  for (double plan::LinkModel::*figure :
       {&plan::LinkModel::latency, &plan::LinkModel::overhead, &plan::LinkModel::bandwidth,
        &plan::LinkModel::send_time, &plan::LinkModel::receive_time, &plan::LinkModel::send_speed,
        &plan::LinkModel::receive_speed})
    result.*figure = median_of(links, [figure](const plan::LinkModel& link) { return link.*figure; });
  for (std::int64_t plan::LinkModel::*figure :
       {&plan::LinkModel::eager, &plan::LinkModel::fragment, &plan::LinkModel::burst})
    result.*figure = std::llround(median_of(
        links, [figure](const plan::LinkModel& link) { return static_cast<double>(link.*figure); }));
  result.fragment = links.front().fragment;
  result.full_duplex = links.front().full_duplex;
  return result;
}

class Fit {
 public:
  Fit(std::span<const RankFigures> ranks, std::span<const LinkFigures> links) : ranks_(ranks) {
    find_hosts();
    for (const LinkFigures& link : links) {
      const std::size_t from = host_of(link.from), to = host_of(link.to);
      if (from == to) {
        hosts_[from].inside.push_back(link_of(link));
        hosts_[from].shares_memory &= link.shares_memory;
        continue;
      }
      const plan::LinkModel network = link_of(crowded(link, ranks));
      hosts_[from].network.push_back(network);
      hosts_[to].network.push_back(network);
    }
  }

  plan::ClusterModel run() {
    plan::ClusterModel cluster;
    cluster.name = "measured";
    for (std::size_t first = 0; first < hosts_.size();) {
      std::size_t last = first + 1;
      while (last < hosts_.size() && alike(model_of({&hosts_[first], 1}), model_of({&hosts_[last], 1})))
        ++last;
      plan::HostModel model = model_of({&hosts_[first], last - first});
      model.count = static_cast<int>(last - first);
      cluster.hosts.push_back(model);
      first = last;
    }
    if (cluster.hosts.size() > 1)
      for (std::size_t i = 0; i < cluster.hosts.size(); ++i)
        cluster.hosts[i].name = fmt::format("group{}-host", i);
    for (const auto& [machine, hosts] : machines_)
      if (hosts > 1) cluster.machines.push_back({name_of(machine), cores_of(machine)});
    return cluster;
  }

 private:
  struct Host {
    std::size_t first = 0, ranks = 0;
    bool shares_memory = true;
    std::vector<plan::LinkModel> inside, network;
  };

  void find_hosts() {
    std::set<std::string> seen;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (rank == 0 || ranks_[rank].host != ranks_[rank - 1].host) {
        if (!seen.insert(ranks_[rank].host).second)
          throw Error(ErrorKind::Usage,
                      fmt::format("rank {} is on a host that has ranks before rank {} too: give each host "
                                  "consecutive ranks, as launchers do by blocks",
                                  rank, rank - 1));
        hosts_.push_back({.first = rank});
        ++machines_[ranks_[rank].machine];
      }
      ++hosts_.back().ranks;
    }
  }

  std::size_t host_of(int rank) const {
    std::size_t host = 0;
    while (host + 1 < hosts_.size() && hosts_[host + 1].first <= static_cast<std::size_t>(rank)) ++host;
    return host;
  }

  std::string name_of(const std::string& machine) const {
    return fmt::format("machine{}", std::distance(machines_.begin(), machines_.find(machine)));
  }

  static double cores_of_rank(const RankFigures& rank) {
    return rank.quota > 0 ? std::min(rank.quota, rank.cores) : rank.cores;
  }

  /// What ranks that want all of their host's cores get of them while all compute. Of a quota that is less
  /// than it says where other hosts have the machine's cores just while some of it is left.
  double cores_of_host(const Host& host) const {
    const double allowed = cores_of_rank(ranks_[host.first]);
    double wanted = 0, granted = 0;
    for (const RankFigures& rank : ranks_.subspan(host.first, host.ranks)) {
      wanted += rank.threads;
      granted += rank.granted;
    }
    return ranks_[host.first].quota > 0 && granted > 0 && wanted >= allowed ? std::min(allowed, granted)
                                                                            : allowed;
  }

  /// The cores that the ranks of a machine can keep busy together. Of those of its host a rank has its share
  /// while all compute, and all that its threads can use while it was measured alone.
  double cores_of(const std::string& machine) const {
    double wanted = 0, reached = 0, there = 0;
    for (const Host& host : hosts_)
      for (const RankFigures& figures : ranks_.subspan(host.first, host.ranks)) {
        if (figures.machine != machine) continue;
        const auto usable = [&](double cores) {
          return std::min(static_cast<double>(figures.threads), cores);
        };
        wanted += usable(cores_of_host(host) / static_cast<double>(host.ranks));
        if (figures.alone.flops > 0)
          reached += usable(cores_of_rank(figures)) * figures.together / figures.alone.flops;
        there = std::max(there, figures.cores);
      }
    return reached > 0 && reached < kEnough * std::min(wanted, there) ? rounded(reached) : there;
  }

  /// Of several hosts: the medians.
  plan::HostModel model_of(std::span<const Host> hosts) const {
    std::vector<RankFigures> ranks;
    std::vector<plan::LinkModel> inside, network;
    for (const Host& host : hosts) {
      ranks.insert(ranks.end(), ranks_.begin() + static_cast<std::ptrdiff_t>(host.first),
                   ranks_.begin() + static_cast<std::ptrdiff_t>(host.first + host.ranks));
      inside.insert(inside.end(), host.inside.begin(), host.inside.end());
      network.insert(network.end(), host.network.begin(), host.network.end());
    }
    const RankFigures& any = ranks.front();
    plan::HostModel model;
    model.devices = static_cast<int>(hosts.front().ranks);
    model.shares_memory = hosts.front().shares_memory;
    const bool shared = machines_.at(any.machine) > 1;
    if (shared) model.machine = name_of(any.machine);
    model.cores = shared || any.quota > 0
                      ? median_of(hosts, [this](const Host& h) { return cores_of_host(h); })
                      : cores_of(any.machine);
    if (shared) model.cores = std::min(model.cores, cores_of(any.machine));  // which may be less
    model.quota_period = any.quota > 0 ? any.period : 0;
    model.device.cores = any.threads;
    // Under a quota figures hold while it lasts, and what was measured is the mean.
    const double share = any.quota > 0 ? std::min(1.0, any.quota / any.threads) : 1;
    model.device.flops =
        rounded(median_of(ranks, [](const RankFigures& r) { return r.alone.flops; }) / share);
    model.device.memory_bandwidth =
        rounded(median_of(ranks, [](const RankFigures& r) { return r.alone.update_bandwidth; }) / share);
    fit_cache(ranks, share, &model.device);
    model.device.launch = median_of(ranks, [](const RankFigures& r) { return r.alone.launch; });
    model.inside = median_link(inside);
    model.network = median_link(network);
    return model;
  }

  /// Ranks of a machine share its cache, and each needs as much again for what it shares with nobody. A
  /// cache that is no faster than memory is none.
  void fit_cache(const std::vector<RankFigures>& ranks, double share, plan::DeviceModel* device) const {
    std::size_t sharers = 0;
    for (const RankFigures& rank : ranks_) sharers += rank.machine == ranks.front().machine ? 1 : 0;
    const double speed =
        rounded(median_of(ranks, [](const RankFigures& r) { return r.alone.cache_bandwidth; }) / share);
    if (ranks.front().cache <= 0 || speed <= device->memory_bandwidth) return;
    device->cache = std::llround(ranks.front().cache / static_cast<double>(2 * sharers));
    device->cache_bandwidth = speed;
  }

  static bool near(double a, double b) { return std::abs(a - b) <= kEqualWithin * std::max(a, b); }
  static bool alike(const plan::HostModel& a, const plan::HostModel& b) {
    return a.devices == b.devices && a.machine == b.machine && a.shares_memory == b.shares_memory &&
           a.quota_period == b.quota_period && a.device.cores == b.device.cores && near(a.cores, b.cores) &&
           near(a.device.flops, b.device.flops) &&
           near(a.device.memory_bandwidth, b.device.memory_bandwidth) && a.device.cache == b.device.cache &&
           near(a.device.cache_bandwidth, b.device.cache_bandwidth) &&
           near(a.network.bandwidth, b.network.bandwidth) && near(a.inside.bandwidth, b.inside.bandwidth);
  }

  std::span<const RankFigures> ranks_;
  std::vector<Host> hosts_;
  std::map<std::string, int> machines_;  // hosts of each
};

}  // namespace

plan::ClusterModel fit_cluster(std::span<const RankFigures> ranks, std::span<const LinkFigures> links) {
  return Fit(ranks, links).run();
}

}  // namespace taxon::planner
