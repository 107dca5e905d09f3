#include "planner/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "launch/core_pressure.h"
#include "launch/core_quota.h"
#include "launch/host.h"
#include "planner/measured.h"

namespace taxon::planner {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ComputeFigures, flops, sum_bandwidth, update_bandwidth, copy_bandwidth,
                                   cache_bandwidth, spread, launch)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankFigures, host, machine, cores, quota, period, threads, cache, alone,
                                   queued_share, together, granted, crowd)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LinkFigures, from, to, shares_memory, half_round_trip, signal, interval,
                                   bandwidth, both_ways, burst, buffered, send_time, receive_time, send_speed,
                                   receive_speed, fragment)

namespace {

using nlohmann::json;
using task::Task;

/// Every two hosts are measured up to this many; beyond, each with the next.
constexpr std::size_t kMostWithAllPairs = 4;
/// What a rank tells about itself must fit.
constexpr std::size_t kTellBytes = 1024;

class Calibrator {
 public:
  Calibrator(comm::Runtime& runtime, const CalibrationOptions& options)
      : runtime_(runtime), options_(options), group_(runtime, "calibration", everybody(runtime)) {}

  Task<Calibration> run();

 private:
  static std::vector<Rank> everybody(const comm::Runtime& runtime) {
    std::vector<Rank> all;
    for (int rank = 0; rank < runtime.world_size(); ++rank) all.emplace_back(rank);
    return all;
  }
  /// Every rank's figures. Nobody gets them before all have given theirs.
  template <class Figures>
  Task<std::vector<Figures>> share(const Figures* mine);
  Task<void> compute_in_turns();
  Task<void> compute_together();
  Task<void> probe_links();
  Task<void> crowd_links();
  std::vector<std::pair<int, int>> pairs() const;

  comm::Runtime& runtime_;
  const CalibrationOptions& options_;
  comm::Communicator group_;
  Calibration result_;
  RankFigures own_;
};

template <class Figures>
Task<std::vector<Figures>> Calibrator::share(const Figures* mine) {
  std::string text = json(*mine).dump();
  TAXON_CHECK(text.size() <= kTellBytes, text.size());
  text.resize(kTellBytes, ' ');
  if (options_.stop && *options_.stop)
    throw Error(ErrorKind::Interrupted, "interrupted before it had measured all");
  const net::Tag tag = group_.begin(net::Operation::AllGather, 0);
  auto gathering =
      group_.gather(tag, ConstView(reinterpret_cast<const std::byte*>(text.data()), text.size()));
  const std::vector<std::byte> all = co_await gathering;
  std::vector<Figures> figures;
  for (std::size_t at = 0; at < all.size(); at += kTellBytes) {
    const char* begin = reinterpret_cast<const char*>(all.data() + at);
    figures.push_back(json::parse(begin, begin + kTellBytes).get<Figures>());
  }
  co_return figures;
}

Task<void> Calibrator::compute_in_turns() {
  int turn = 0, turns = 0;
  std::map<std::string, int> of_machine;
  for (std::size_t rank = 0; rank < result_.ranks.size(); ++rank) {
    int& next = of_machine[result_.ranks[rank].machine];
    if (static_cast<int>(rank) == group_.rank()) turn = next;
    turns = std::max(turns, ++next);
  }
  for (int now = 0; now < turns; ++now) {
    if (now == turn) {
      launch::CorePressure pressure;
      own_.alone = probe_compute(options_.seconds, options_.threads);
      own_.queued_share = pressure.take_share_of_others().value_or(-1);
      own_.alone.launch = co_await probe_launch(&runtime_);
    }
    result_.ranks = co_await share(&own_);
  }
}

/// What is measured lies inside of the time in which all compute: before and after it all do, too.
Task<void> Calibrator::compute_together() {
  probe_matrix(0.5 * options_.seconds, options_.threads);
  launch::CorePressure pressure;
  const Instant begin = runtime_.executor().now();
  own_.together = probe_matrix(2 * options_.seconds, options_.threads);
  const double took = to_seconds(runtime_.executor().now() - begin);
  if (const auto time = pressure.take(); time && took > 0) own_.granted = time->running / took;
  probe_matrix(0.5 * options_.seconds, options_.threads);
  result_.ranks = co_await share(&own_);
}

/// The first ranks of hosts, and the first two ranks of each host that has two.
std::vector<std::pair<int, int>> Calibrator::pairs() const {
  std::vector<int> hosts;
  std::vector<std::pair<int, int>> all;
  for (int rank = 0; rank < group_.size(); ++rank) {
    auto host = [&](int r) { return result_.ranks[static_cast<std::size_t>(r)].host; };
    if (rank > 0 && host(rank) == host(rank - 1)) {
      if (hosts.back() == rank - 1) all.emplace_back(rank - 1, rank);
      continue;
    }
    hosts.push_back(rank);
  }
  const std::size_t count = hosts.size();
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = i + 1; j < count; ++j)
      if (count <= kMostWithAllPairs || j == i + 1 || (i == 0 && j == count - 1))
        all.emplace_back(hosts[i], hosts[j]);
  return all;
}

Task<void> Calibrator::probe_links() {
  for (auto [first, second] : pairs()) {
    const LinkFigures mine = co_await probe_link(&group_, first, second, options_.seconds);
    const std::vector<LinkFigures> all = co_await share(&mine);
    result_.links.push_back(all[static_cast<std::size_t>(first)]);
  }
}

/// Between two hosts a pair is a crowd already; ranks of one host need no network.
Task<void> Calibrator::crowd_links() {
  if (group_.size() < 3) co_return;
  double slowest = 0;
  for (const LinkFigures& link : result_.links) {
    if (link.shares_memory) co_return;
    slowest = slowest == 0 ? link.bandwidth : std::min(slowest, link.bandwidth);
  }
  own_.crowd = co_await probe_crowd(&group_, slowest, 2 * options_.seconds);
  result_.ranks = co_await share(&own_);
}

Task<Calibration> Calibrator::run() {
  co_await group_.establish();
  const launch::ProcessorQuota quota = launch::core_quota();
  own_.host = launch::host_id();
  own_.machine = own_.host.substr(0, own_.host.find('/'));
  own_.cores = options_.cores;
  own_.quota = quota.cores < own_.cores ? quota.cores : 0;
  own_.period = quota.period;
  own_.threads = options_.threads;
  own_.cache = static_cast<double>(launch::largest_cache());
  result_.ranks = co_await share(&own_);
  options_.say("measuring compute: one rank after the other, then all at once");
  co_await compute_in_turns();
  co_await compute_together();
  if (group_.size() > 1) options_.say(fmt::format("measuring {} pairs of ranks", pairs().size()));
  auto links = probe_links();
  co_await links;
  co_await crowd_links();
  result_.cluster = fit_cluster(result_.ranks, result_.links);
  co_return std::move(result_);
}

std::string rate(double bytes_per_second) { return format_bytes(bytes_per_second) + "/s"; }

}  // namespace

Task<Calibration> calibrate(comm::Runtime* runtime, const CalibrationOptions* options) {
  Calibrator calibrator(*runtime, *options);
  co_return co_await calibrator.run();
}

std::string cluster_text(const Calibration& calibration) {
  return fmt::format("# Measured by taxon calibrate with {} ranks.\n", calibration.ranks.size()) +
         plan::write_cluster(calibration.cluster) + "\n";
}

std::string to_json(const Calibration& calibration, const std::string& file) {
  json all;
  all["cluster_file"] = file;
  all["ranks"] = calibration.ranks;
  all["links"] = calibration.links;
  all["trusted"] =
      std::all_of(calibration.ranks.begin(), calibration.ranks.end(), [](const RankFigures& rank) {
        return rank.queued_share < 0 || busy_warning(rank.queued_share).empty();
      });
  return all.dump(2) + "\n";
}

std::string describe(const Calibration& calibration) {
  std::string text =
      fmt::format("{:>5} {:>20} {:>8} {:>14} {:>14} {:>10} {:>12} {:>12} {:>12} {:>12} {:>10} {:>10}\n",
                  "rank", "cores", "threads", "matrices", "all at once", "cores then", "sums", "updates",
                  "copies", "in caches", "a kernel", "spread");
  for (std::size_t rank = 0; rank < calibration.ranks.size(); ++rank) {
    const RankFigures& r = calibration.ranks[rank];
    const std::string cores = r.quota > 0
                                  ? fmt::format("{:.3g} of {:g}, {:g} ms", r.quota, r.cores, r.period * 1e3)
                                  : fmt::format("{:g}", r.cores);
    text += fmt::format(
        "{:>5} {:>20} {:>8} {:>7.1f} GFLOP/s {:>6.1f} GFLOP/s {:>10} {:>12} {:>12} {:>12} {:>12} {:>10} "
        "{:>10}\n",
        rank, cores, r.threads, r.alone.flops * 1e-9, r.together * 1e-9,
        r.granted > 0 ? fmt::format("{:.3g}", r.granted) : "-", rate(r.alone.sum_bandwidth),
        rate(r.alone.update_bandwidth), rate(r.alone.copy_bandwidth), rate(r.alone.cache_bandwidth),
        format_seconds(r.alone.launch), describe_spread(r.alone.spread));
  }
  for (std::size_t rank = 0; rank < calibration.ranks.size(); ++rank)
    if (const double share = calibration.ranks[rank].queued_share; share >= 0)
      if (const std::string warning = busy_warning(share); !warning.empty())
        text += fmt::format("rank {}: {}", rank, warning);
  if (calibration.links.empty()) return text;
  text += fmt::format("{:>9} {:>11} {:>11} {:>11} {:>13} {:>13} {:>10} {:>11} {:>13} {:>13}\n", "ranks",
                      "one way", "signal", "a message", "bandwidth", "both ways", "burst", "its core",
                      "sent by core", "received");
  for (const LinkFigures& link : calibration.links)
    text += fmt::format("{:>4} - {:<3}{:>11} {:>11} {:>11} {:>13} {:>13} {:>10} {:>11} {:>13} {:>13}\n",
                        link.from, link.to, format_seconds(link.half_round_trip),
                        link.signal > 0 ? format_seconds(link.signal) : "-", format_seconds(link.interval),
                        rate(link.bandwidth), rate(link.both_ways), format_bytes(link.burst),
                        format_seconds(link.send_time), rate(link.send_speed), rate(link.receive_speed));
  return text;
}

}  // namespace taxon::planner
