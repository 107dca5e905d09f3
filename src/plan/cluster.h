#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/choice.h"

namespace taxon::plan {

/// What the virtual world is made of. Plain data like Plan: keys, sentences and bounds of each field stand in
/// plan/cluster_fields.h. Times in seconds, rates in bytes per second, speeds in operations per second; in a
/// file each may have its unit ("50us", "1 Gbit/s", "15 TFLOP/s", "16GiB").

struct DeviceModel {
  double flops = 0;             // 0: not given
  double memory_bandwidth = 0;  // 0: not given
  std::int64_t memory = 0;      // 0: unlimited
  std::int64_t cache = 0;       // a rank that shares at most so many bytes works in caches
  double cache_bandwidth = 0;   // then in place of memory_bandwidth
  double launch = 0;            // until a kernel begins on an idle lane with a thread of its own
  double cores = 0;             // that a kernel of the compute stream uses at full speed; 0: its share
  friend bool operator==(const DeviceModel&, const DeviceModel&) = default;
};

/// How one message crosses a link: overhead + bytes / bandwidth at the sender's end, then latency. See
/// docs/simulation.md.
struct LinkModel {
  double latency = 0;
  double overhead = 0;
  double bandwidth = 0;    // of each direction; 0: not given
  std::int64_t burst = 0;  // bytes that a link which was idle for long enough lets through at once
  bool full_duplex = true;
  bool per_rank = false;   // each rank has a link end of its own; otherwise the ranks of a host share one
  std::int64_t eager = 0;  // a send of up to so many bytes is copied and done at once
  // What a message costs the processors of its ends, on the threads that communicate.
  std::int64_t fragment = 0;                 // messages travel in pieces of so many bytes; 0: whole
  double send_time = 0, receive_time = 0;    // for each piece
  double send_speed = 0, receive_speed = 0;  // bytes per second of a core; 0: bytes cost nothing
  friend bool operator==(const LinkModel&, const LinkModel&) = default;
};

/// `count` equal hosts, each with `devices` places for ranks.
struct HostModel {
  std::string name = "host";  // with a count above 1: name0, name1, ...
  int count = 1;
  int devices = 1;
  double cores = 0;  // that its ranks can use; 0: processors are not modelled (work is on accelerators)
  double quota_period = 0;    // above 0: `cores` is a quota of processor time, dealt out once a period
  std::string machine;        // hosts that name the same machine share its cores
  bool shares_memory = true;  // ranks of one host map each other's regions
  DeviceModel device;
  LinkModel inside;
  LinkModel network;
  friend bool operator==(const HostModel&, const HostModel&) = default;
};

/// A machine that several (emulated) hosts run on.
struct MachineModel {
  std::string name;
  double cores = 0;
  friend bool operator==(const MachineModel&, const MachineModel&) = default;
};

/// What joins the hosts. A leaf switch and its hosts talk at full rate; the way between leaves (with one
/// leaf: the switch itself) carries the sum of its hosts' rates over `oversubscription`.
struct SwitchModel {
  int hosts_per_leaf = 0;  // 0: all
  double oversubscription = 1;
  friend bool operator==(const SwitchModel&, const SwitchModel&) = default;
};

/// A device that is slower than its model says.
struct StragglerModel {
  int rank = -1;
  std::string host;  // this or rank
  double slowdown = 0;
  double at = 0;
  double until = 0;        // 0: to the end
  double probability = 1;  // that a kernel is hit, drawn for each from the run's seed
  friend bool operator==(const StragglerModel&, const StragglerModel&) = default;
};

/// One line of the fault script.
enum class FaultKind : std::uint8_t { Missing, Kill, SlowDevice, SlowLink, CutLink, Delay };
template <>
struct Words<FaultKind> {
  static constexpr std::string_view all[] = {"", "kill", "slow_device", "slow_link", "cut_link", "delay"};
};

struct FaultModel {
  FaultKind kind = FaultKind::Missing;
  int rank = -1;
  std::string host;
  std::string peer;  // cut_link: only between host and this one
  double at = 0;
  double until = 0;  // 0: to the end
  double factor = 0;
  double bound = 0;
  friend bool operator==(const FaultModel&, const FaultModel&) = default;
};

struct ClusterModel {
  std::string name = "cluster";
  std::vector<HostModel> hosts;
  std::vector<MachineModel> machines;
  SwitchModel network_switch;
  double detection = 0.1;  // from a rank's end until the others learn of it
  std::vector<StragglerModel> stragglers;
  std::vector<FaultModel> faults;
  friend bool operator==(const ClusterModel&, const ClusterModel&) = default;
};

/// One host of the cluster, its group expanded.
struct HostPlace {
  std::string name;
  const HostModel* model = nullptr;
  int first_rank = 0;
};
/// Every host in order; ranks fill them in order. The model outlives the result.
std::vector<HostPlace> expand_hosts(const ClusterModel& cluster);
/// Places for ranks.
int capacity(const ClusterModel& cluster);

/// Everything that is wrong with the cluster as a whole, one line each: figures that are missing or
/// contradict each other and, unless `world_size` is 0, ranks that it cannot hold. Empty: it is sound.
std::vector<std::string> cluster_problems(const ClusterModel& cluster, int world_size = 0);

/// Throws Error{Usage} that lists everything wrong with the text and the cluster, with line numbers where
/// there are any. `origin` names the text in messages.
ClusterModel parse_cluster(const std::string& yaml, const std::string& origin, int world_size = 0);
ClusterModel read_cluster(const std::string& path, int world_size = 0);
/// As YAML that parse_cluster() reads back.
std::string write_cluster(const ClusterModel& cluster);

}  // namespace taxon::plan
