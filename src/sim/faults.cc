#include "sim/faults.h"

#include <algorithm>

namespace taxon::sim {
namespace {

Instant instant(double seconds) { return Instant(from_seconds(seconds)); }

int host_index(const std::vector<plan::HostPlace>& hosts, const std::string& name) {
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (hosts[i].name == name) return static_cast<int>(i);
  return -1;
}

}  // namespace

Faults::Faults(const plan::ClusterModel& cluster, std::uint64_t seed)
    : chance_(seed, "stragglers"), lateness_(seed, "delivery delays") {
  const auto hosts = plan::expand_hosts(cluster);
  auto window = [&](const auto& item) {
    Window made;
    made.rank = item.rank;
    made.host = host_index(hosts, item.host);
    made.begin = instant(item.at);
    made.end = item.until > 0 ? instant(item.until) : Instant::max();
    return made;
  };
  for (const plan::StragglerModel& straggler : cluster.stragglers) {
    Window slow = window(straggler);
    slow.factor = straggler.slowdown;
    slow.probability = straggler.probability;
    slow_devices_.push_back(slow);
  }
  for (const plan::FaultModel& fault : cluster.faults) {
    Window made = window(fault);
    made.factor = fault.factor;
    made.bound = from_seconds(fault.bound);
    made.peer = host_index(hosts, fault.peer);
    if (fault.kind == plan::FaultKind::Kill) kills_.push_back({fault.rank, made.begin});
    if (fault.kind == plan::FaultKind::SlowDevice) slow_devices_.push_back(made);
    if (fault.kind == plan::FaultKind::SlowLink) slow_links_.push_back(made);
    if (fault.kind == plan::FaultKind::CutLink) cuts_.push_back(made);
    if (fault.kind == plan::FaultKind::Delay) delays_.push_back(made);
  }
}

double Faults::device_factor(Target target, Instant now) {
  double factor = 1;
  for (const Window& slow : slow_devices_)
    if (slow.open(now) && slow.concerns(target) &&
        (slow.probability >= 1 || chance_.uniform() < slow.probability))
      factor *= slow.factor;
  return factor;
}

double Faults::link_factor(int host, Instant now) const {
  double factor = 1;
  for (const Window& slow : slow_links_)
    if (slow.host == host && slow.open(now)) factor *= slow.factor;
  return factor;
}

std::optional<Instant> Faults::cut_until(int from, int to, Instant now) const {
  std::optional<Instant> whole;
  if (from == to) return whole;
  // When one cut ends another may have begun.
  for (bool longer = true; longer;) {
    longer = false;
    for (const Window& cut : cuts_) {
      const bool between = (cut.host == from && (cut.peer < 0 || cut.peer == to)) ||
                           (cut.host == to && (cut.peer < 0 || cut.peer == from));
      if (!between || !cut.open(whole.value_or(now)) || cut.end <= whole.value_or(now)) continue;
      whole = cut.end;
      longer = true;
    }
  }
  return whole;
}

Duration Faults::delay(Target target, Instant now) {
  Duration total{0};
  for (const Window& late : delays_)
    if (late.open(now) && late.concerns(target))
      total += Duration(
          static_cast<std::int64_t>(lateness_.below(static_cast<std::uint64_t>(late.bound.count()) + 1)));
  return std::min(total, kLongest);
}

}  // namespace taxon::sim
