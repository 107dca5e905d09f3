#include "faults/schedule.h"

#include <fmt/format.h>

#include <cmath>

#include "base/rng.h"
#include "base/units.h"

namespace taxon::faults {
namespace {

/// What a row of the table draws from.
struct Scene {
  Rng& rng;
  int ranks;
  double length;
  std::vector<std::string> hosts;

  int rank() { return static_cast<int>(rng.below(static_cast<std::uint64_t>(ranks))); }
  std::size_t host() { return rng.below(hosts.size()); }
  /// From one magnitude to another, each equally likely.
  double between(double low, double high) { return low * std::pow(high / low, rng.uniform()); }
  bool one_in(std::uint64_t n) { return rng.below(n) == 0; }
  void window(plan::FaultModel& fault) {
    fault.at = rng.uniform() * length;
    fault.until = fault.at + between(0.01, 3) * length;
  }
};

void delay(Scene& scene, plan::FaultModel& fault) {
  fault.bound = scene.between(1e-3, 1) * scene.length;
  if (scene.one_in(2)) scene.window(fault);
  if (scene.one_in(2)) fault.rank = scene.rank();
}

void slow_device(Scene& scene, plan::FaultModel& fault) {
  fault.rank = scene.rank();
  fault.factor = scene.between(1.5, 1000);
  scene.window(fault);
}

void slow_link(Scene& scene, plan::FaultModel& fault) {
  fault.host = scene.hosts[scene.host()];
  fault.factor = scene.between(1.5, 1000);
  scene.window(fault);
}

void cut_link(Scene& scene, plan::FaultModel& fault) {
  const std::size_t host = scene.host();
  fault.host = scene.hosts[host];
  if (scene.one_in(2))
    fault.peer = scene.hosts[(host + 1 + scene.rng.below(scene.hosts.size() - 1)) % scene.hosts.size()];
  scene.window(fault);
  if (scene.one_in(2)) fault.until = 0;
}

void kill(Scene& scene, plan::FaultModel& fault) {
  fault.rank = scene.rank();
  // What slows the run down lets later instants fall into it, too.
  fault.at = scene.rng.uniform() * scene.length * (scene.one_in(3) ? 4 : 1);
}

struct Row {
  plan::FaultKind kind;
  std::uint64_t chance;  // in percent
  int hosts;             // that there must be
  void (*draw)(Scene&, plan::FaultModel&);
};
constexpr Row kRows[] = {
    {plan::FaultKind::Delay, 60, 1, delay},
    {plan::FaultKind::Delay, 20, 1, delay},
    {plan::FaultKind::SlowDevice, 30, 1, slow_device},
    {plan::FaultKind::SlowLink, 30, 2, slow_link},
    {plan::FaultKind::CutLink, 40, 2, cut_link},
    {plan::FaultKind::Kill, 50, 1, kill},
    {plan::FaultKind::Kill, 10, 1, kill},
};

}  // namespace

FaultSchedule draw_schedule(std::uint64_t seed, plan::ClusterModel cluster, int ranks, double length) {
  Rng rng(seed, "fault schedule");
  Scene scene{rng, ranks, length, {}};
  for (const plan::HostPlace& place : plan::expand_hosts(cluster)) scene.hosts.push_back(place.name);
  FaultSchedule schedule;
  for (const Row& row : kRows) {
    if (rng.below(100) >= row.chance || static_cast<int>(scene.hosts.size()) < row.hosts) continue;
    plan::FaultModel fault;
    fault.kind = row.kind;
    row.draw(scene, fault);
    schedule.cuts_for_good |= fault.kind == plan::FaultKind::CutLink && fault.until == 0;
    cluster.faults.push_back(std::move(fault));
  }
  cluster.detection = scene.between(1e-2, 10) * length;
  schedule.cluster = std::move(cluster);
  return schedule;
}

std::vector<std::string> describe(const FaultSchedule& schedule) {
  std::vector<std::string> lines;
  for (const plan::FaultModel& fault : schedule.cluster.faults) {
    std::string line(plan::to_string(fault.kind));
    if (fault.rank >= 0) line += fmt::format(" rank {}", fault.rank);
    if (!fault.host.empty()) line += " " + fault.host;
    if (!fault.peer.empty()) line += " to " + fault.peer;
    if (fault.factor > 0) line += fmt::format(" {:.1f} times", fault.factor);
    if (fault.bound > 0) line += fmt::format(" up to {}", format_seconds(fault.bound));
    line += fmt::format(" at {}", format_seconds(fault.at));
    if (fault.kind != plan::FaultKind::Kill && fault.until == 0) line += " for good";
    if (fault.until > 0) line += fmt::format(" until {}", format_seconds(fault.until));
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace taxon::faults
