#include "plan/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "plan/nearest.h"

namespace taxon::plan {
namespace {

std::int64_t places_of(const ClusterModel& cluster) {
  std::int64_t ranks = 0;
  for (const HostModel& host : cluster.hosts) ranks += std::int64_t{host.count} * host.devices;
  return ranks;
}

constexpr std::int64_t kMostRanks = std::numeric_limits<int>::max();
/// As a number of ranks; ClusterCheck refuses a cluster that has more.
int numbered(std::int64_t ranks) { return static_cast<int>(std::min(ranks, kMostRanks)); }

/// Collects what is wrong, in the order of the file.
class ClusterCheck {
 public:
  ClusterCheck(const ClusterModel& cluster, int world_size) : cluster_(cluster), world_size_(world_size) {
    for (const HostPlace& place : expand_hosts(cluster)) hosts_.push_back(place.name);
    for (const MachineModel& machine : cluster.machines) machines_.push_back(machine.name);
  }

  std::vector<std::string> run() {
    if (cluster_.hosts.empty()) complain("hosts is missing: a cluster has at least one host");
    for (std::size_t i = 0; i < cluster_.hosts.size(); ++i)
      host(cluster_.hosts[i], fmt::format("hosts[{}]", i));
    unique(hosts_, "hosts");
    unique(machines_, "machines");
    for (std::size_t i = 0; i < cluster_.machines.size(); ++i)
      if (cluster_.machines[i].cores <= 0) missing(fmt::format("machines[{}].cores", i));
    if (cluster_.network_switch.hosts_per_leaf > static_cast<int>(hosts_.size()))
      complain(fmt::format("switch.hosts_per_leaf is {}, but there are {} hosts",
                           cluster_.network_switch.hosts_per_leaf, hosts_.size()));
    for (std::size_t i = 0; i < cluster_.stragglers.size(); ++i)
      straggler(cluster_.stragglers[i], fmt::format("stragglers[{}]", i));
    for (std::size_t i = 0; i < cluster_.faults.size(); ++i)
      fault(cluster_.faults[i], fmt::format("faults[{}]", i));
    if (const std::int64_t places = places_of(cluster_); places > kMostRanks)
      complain(fmt::format("hosts: they hold {} ranks, but ranks are numbered up to {}", places, kMostRanks));
    if (world_size_ > capacity(cluster_))
      complain(fmt::format("{} ranks do not fit: the cluster holds {} ({} hosts)", world_size_,
                           capacity(cluster_), hosts_.size()));
    return std::move(problems_);
  }

 private:
  void complain(std::string text) { problems_.push_back(std::move(text)); }
  void missing(const std::string& key) { complain(key + " is missing: it must be given, above 0"); }
  /// No machine is slower than `least`, and virtual time would not be long enough for one.
  void given(double rate, double least, const std::string& key) {
    if (rate <= 0)
      missing(key);
    else if (rate < least)
      complain(fmt::format("{} is {} a second, which no machine is: is its unit missing (G, MB/s, Gbit/s)?",
                           key, rate));
  }

  void unique(const std::vector<std::string>& names, const char* what) {
    std::set<std::string> seen;
    for (const std::string& name : names) {
      if (name.empty()) complain(fmt::format("{}: one has no name", what));
      if (!seen.insert(name).second) complain(fmt::format("{}: two are called \"{}\"", what, name));
    }
  }

  void host(const HostModel& host, const std::string& path) {
    constexpr double kLeastFlops = 1e6, kLeastBandwidth = 1e3;
    given(host.device.flops, kLeastFlops, path + ".device.flops");
    given(host.device.memory_bandwidth, kLeastBandwidth, path + ".device.memory_bandwidth");
    if (host.device.cache > 0)
      given(host.device.cache_bandwidth, kLeastBandwidth, path + ".device.cache_bandwidth");
    if (host.devices > 1) link(host.inside, path + ".inside");
    if (hosts_.size() > 1) link(host.network, path + ".network");
    if (host.quota_period > 0 && host.cores <= 0)
      complain(path + ".cores is missing: quota_period deals out a quota of so many cores");
    if (host.machine.empty()) return;
    auto machine = std::find_if(cluster_.machines.begin(), cluster_.machines.end(),
                                [&](const MachineModel& m) { return m.name == host.machine; });
    if (machine == cluster_.machines.end())
      return complain(fmt::format("{}.machine is \"{}\", which machines does not list{}", path, host.machine,
                                  suggestion(nearest(host.machine, machines_))));
    if (host.cores <= 0)
      complain(
          fmt::format("{}.cores is missing: a host of machine \"{}\" must say how many of its cores it "
                      "can use",
                      path, host.machine));
    else if (machine->cores > 0 && host.cores > machine->cores)
      complain(fmt::format("{}.cores is {}, but machine \"{}\" has {}", path, host.cores, host.machine,
                           machine->cores));
  }

  void link(const LinkModel& link, const std::string& path) {
    constexpr double kLeast = 1e3;
    given(link.bandwidth, kLeast, path + ".bandwidth");
    if (link.send_speed > 0) given(link.send_speed, kLeast, path + ".send_speed");
    if (link.receive_speed > 0) given(link.receive_speed, kLeast, path + ".receive_speed");
  }

  void known_rank(int rank, const std::string& path) {
    int ranks = world_size_ > 0 ? std::min(world_size_, capacity(cluster_)) : capacity(cluster_);
    if (rank >= ranks)
      complain(fmt::format("{}.rank is {}, but there are ranks 0 to {}", path, rank, ranks - 1));
  }
  void known_host(const std::string& name, const std::string& key) {
    if (std::find(hosts_.begin(), hosts_.end(), name) == hosts_.end())
      complain(fmt::format("{} is \"{}\", which is no host{}", key, name, suggestion(nearest(name, hosts_))));
  }
  /// A fault or straggler concerns a rank or a host, not both.
  template <class T>
  void one_target(const T& item, const std::string& path) {
    if ((item.rank >= 0) == !item.host.empty())
      complain(fmt::format("{}: exactly one of rank and host must be given; {}", path,
                           item.rank >= 0 ? "both are" : "neither is"));
    if (item.rank >= 0) known_rank(item.rank, path);
    if (!item.host.empty()) known_host(item.host, path + ".host");
  }
  template <class T>
  void window(const T& item, const std::string& path) {
    if (item.until > 0 && item.until <= item.at)
      complain(fmt::format("{}.until ({} s) is not after .at ({} s)", path, item.until, item.at));
  }

  void straggler(const StragglerModel& item, const std::string& path) {
    one_target(item, path);
    window(item, path);
    if (item.slowdown < 1) complain(path + ".slowdown must be given, at least 1");
  }

  /// `key` belongs to other kinds of faults.
  void foreign(bool given, const FaultModel& item, const std::string& path, const char* key) {
    if (given) complain(fmt::format("{}.{} means nothing to kind {}", path, key, item.kind));
  }

  void fault(const FaultModel& item, const std::string& path) {
    if (item.kind == FaultKind::Missing)
      return complain(path + ".kind is missing: kill, slow_device, slow_link, cut_link or delay");
    const bool kill = item.kind == FaultKind::Kill, cut = item.kind == FaultKind::CutLink;
    const bool delay = item.kind == FaultKind::Delay, link = cut || item.kind == FaultKind::SlowLink;
    const bool slow = item.kind == FaultKind::SlowDevice || item.kind == FaultKind::SlowLink;
    window(item, path);
    if (kill) {
      if (item.rank < 0) complain(path + ".rank is missing: whom to kill");
      if (item.rank >= 0) known_rank(item.rank, path);
      foreign(!item.host.empty(), item, path, "host");
      foreign(item.until > 0, item, path, "until");
    } else if (link) {
      if (item.host.empty()) complain(path + ".host is missing: whose link");
      if (!item.host.empty()) known_host(item.host, path + ".host");
      foreign(item.rank >= 0, item, path, "rank");
    } else if (!delay || item.rank >= 0 || !item.host.empty()) {
      one_target(item, path);
    }
    if (cut && !item.peer.empty()) known_host(item.peer, path + ".peer");
    if (slow && item.factor < 1) complain(path + ".factor must be given, at least 1");
    if (delay && item.bound <= 0) complain(path + ".bound is missing: the longest delay");
    foreign(!cut && !item.peer.empty(), item, path, "peer");
    foreign(!slow && item.factor > 0, item, path, "factor");
    foreign(!delay && item.bound > 0, item, path, "bound");
  }

  const ClusterModel& cluster_;
  int world_size_;
  std::vector<std::string> hosts_, machines_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<HostPlace> expand_hosts(const ClusterModel& cluster) {
  std::vector<HostPlace> places;
  std::int64_t rank = 0;
  for (const HostModel& host : cluster.hosts)
    for (int i = 0; i < host.count; ++i) {
      places.push_back(
          {host.count == 1 ? host.name : fmt::format("{}{}", host.name, i), &host, numbered(rank)});
      rank += host.devices;
    }
  return places;
}

int capacity(const ClusterModel& cluster) { return numbered(places_of(cluster)); }

std::vector<std::string> cluster_problems(const ClusterModel& cluster, int world_size) {
  return ClusterCheck(cluster, world_size).run();
}

}  // namespace taxon::plan
