#include "faults/shape.h"

#include <fmt/format.h>

#include <string_view>

#include "base/check.h"
#include "base/rng.h"
#include "codec/codec.h"

namespace taxon::faults {
namespace {

constexpr int kFewestRanks = 2, kMostRanks = 8;

/// A key of the plan and the values that are tried, all equally often. What is illegal with the rest of a
/// draw costs a draw.
struct Axis {
  std::string_view key;
  std::vector<std::string> values;
};

/// Levels with a codec: between all, and at owners of parts if it can be there; with options under which it
/// has something to do on gradients of a few hundred values.
std::vector<std::string> coded_levels(const codec::CodecRow& row) {
  const plan::Options options = codec::options_for(row, {{"density", 0.1},
                                                         {"drawn", 0.5},
                                                         {"columns", 0.2},
                                                         {"rows", 3},
                                                         {"rank", 1},
                                                         {"block", 64},
                                                         {"threshold", 0.01}});
  std::string keys = fmt::format("name: {}", row.name);
  for (const auto& [key, text] : options.given()) keys += fmt::format(", {}: {}", key, text);
  std::vector<std::string> levels = {fmt::format("[{{codec: {{{}}}}}]", keys)};
  if (codec::stands_alone(row)) levels.push_back(fmt::format("[{{topology: sharded, codec: {{{}}}}}]", keys));
  return levels;
}

std::vector<Axis> all_axes() {
  std::vector<Axis> axes = {
      {"exchange.levels",
       {"[{collective: auto}]", "[{collective: ring}]", "[{collective: tree}]",
        "[{collective: halving_doubling}]", "[{collective: torus}]", "[{collective: direct}]",
        "[{collective: one_shot}]", "[{topology: sharded}]", "[{topology: sharded, collective: ring}]",
        "[{topology: sharded, parameters: sharded}]",
        "[{topology: sharded, collective: ring, parameters: sharded, prefetch: 0}]",
        "[{group: node, topology: sharded, parameters: sharded, prefetch: 0}, {group: across}]",
        "[{group: node}, {group: across}]", "[{group: node, topology: sharded}, {group: across}]",
        "[{group: node}, {group: across, topology: sharded}]",
        "[{group: node, topology: sharded}, {group: across, topology: sharded}]", "[{topology: adasum}]",
        "[{group: node, topology: sharded}, {group: across, topology: adasum}]",
        // Replicas that meet.
        "[{rule: average, period: 3}]", "[{rule: average, period: 2, inner_state: average}]",
        "[{rule: block, period: 2, momentum: 0.5, topology: sharded, inner_state: reset}]",
        "[{rule: block_nesterov, period: 3, momentum: 0.5}]", "[{rule: slowmo, period: 3, momentum: 0.5}]",
        "[{rule: outer_momentum, period: 2, momentum: 0.9, rate: 0.7, delay: 1}]",
        "[{rule: outer_nesterov, period: 4, momentum: 0.9, rate: 0.7, fragments: 2, delay: 1, mixing: 0.5}]",
        "[{rule: elastic, period: 2, rate: 0.9}]",
        "[{rule: elastic, period: 3, rate: 0.9, topology: sharded}]",
        "[{group: node, topology: sharded}, {group: across, rule: average, period: 2}]",
        // Gossip.
        "[{topology: gossip, rule: average, graph: ring}]",
        "[{topology: gossip, rule: average, graph: exponential, period: 2}]",
        "[{topology: gossip, rule: average, graph: dissemination}]",
        "[{topology: gossip, rule: average, graph: random}]",
        "[{topology: gossip, rule: average, graph: push}]",
        "[{topology: gossip, rule: average, graph: random, period: 2, delay: 1}]",
        "[{topology: pairs, rule: average}]", "[{topology: pairs, rule: average, period: 2}]",
        "[{topology: significant, rule: average, significance: 0.05}]",
        "[{group: node, topology: sharded}, {group: across, topology: significant, rule: average, period: "
        "2}]",
        // Servers: synchronous, SSP, asynchronous, quorum, softsync; and replicas that meet there.
        "[{topology: servers}]", "[{topology: servers, staleness: 1, apply: 1}]",
        "[{topology: servers, staleness: 3, apply: 1}]", "[{topology: servers, staleness: -1, apply: 1}]",
        "[{topology: servers, staleness: -1, apply: 1, late: less}]",
        "[{topology: servers, staleness: -1, apply: 1, late: compensated}]",
        "[{topology: servers, staleness: -1, apply: 1, late: compensated_adaptively}]",
        "[{topology: servers, rule: accumulated, period: 3, staleness: -1, apply: 1, late: moved}]",
        "[{topology: servers, consistency: sampled, staleness: 1, sample: 1}]",
        "[{topology: servers, quorum: 1, apply: 1}]", "[{topology: servers, quorum: 2, apply: 2}]",
        "[{topology: servers, staleness: -1, apply: 2}]", "[{topology: servers, staleness: -1, apply: 3}]",
        "[{group: node, topology: sharded}, {group: across, topology: servers}]",
        "[{group: node, topology: sharded}, {group: across, topology: servers, staleness: 2, apply: 1}]",
        "[{group: node, topology: sharded}, {group: across, topology: servers, staleness: -1, apply: 1}]",
        "[{topology: servers, rule: block_nesterov, period: 3, momentum: 0.5}]",
        "[{topology: servers, rule: elastic, period: 2, rate: 0.9}]",
        "[{topology: servers, rule: elastic, period: 2, rate: 0.9, staleness: 1, apply: 1}]",
        "[{topology: servers, rule: elastic, period: 1, rate: 0.9, staleness: -1, apply: 1}]",
        // Compressed, beside what every codec adds: across nodes, where replicas meet, and at servers.
        "[{group: node, topology: sharded}, {group: across, codec: {name: sign}}]",
        "[{rule: average, period: 2, codec: {name: int8}}]",
        "[{topology: servers, codec: {name: int8, answer: int8}}]",
        "[{topology: servers, staleness: 2, apply: 1, codec: {name: top_k, density: 0.1}}]",
        "[{topology: servers, staleness: -1, apply: 1, codec: {name: sign, answer: int8}}]",
        "[{topology: servers, quorum: 2, apply: 2, codec: {name: int8}}]",
        // Servers that ask back.
        "[{topology: servers, codec: {name: count_sketch, density: 0.05, columns: 0.2, rows: 3}}]",
        "[{topology: servers, codec: {name: count_sketch, density: 0.1, columns: 0.3, rows: 1, momentum: "
        "0.9}}]",
        "[{group: node, topology: sharded}, {group: across, topology: servers, codec: {name: count_sketch, "
        "density: 0.1, columns: 0.2, rows: 3, dense_below: 20}}]",
        // Sufficient factors.
        "[{factors: always}]", "[{factors: auto}]", "[{group: node, factors: always}, {group: across}]",
        "[{group: node, factors: always}, {group: across, topology: sharded}]"}},
      {"mesh.servers", {"0", "0", "1", "2"}},
      {"mesh.node", {"0", "0", "2", "3", "4"}},
      {"mesh.pipeline", {"1", "1", "1", "2"}},
      {"mesh.tensor", {"1", "1", "1", "2"}},
      {"pipeline.schedule",
       {"gpipe", "1f1b", "zb_h1", "gpipe", "1f1b", "zb_h1", "pipedream", "pipedream_2bw"}},
      {"pipeline.activations", {"kept", "kept", "kept", "kept", "recomputed"}},
      {"exchange.gradients", {"whole", "whole", "ring"}},
      {"exchange.delay", {"0", "0", "0", "1"}},
      {"exchange.order", {"priority", "backward"}},
      {"exchange.overlap", {"forward", "backward"}},
      {"exchange.bucket_bytes", {"64", "200", "1000000"}},
      {"exchange.slice_bytes", {"64", "300", "1000000"}},
      {"exchange.in_flight", {"1", "2", "4"}},
      {"batch.global", {"24", "5"}},  // 5: some ranks have no sample
      {"batch.micro_batches", {"1", "1", "1", "2", "2", "4"}},
      {"optimiser.rule", {"sgd", "momentum", "adamw", "adagrad", "nesterov", "sign"}},
      {"optimiser.clip_norm", {"0", "0", "0.5"}},
      {"precision.compute", {"float32", "bfloat16"}},
      {"checkpoint.every_steps", {"0", "0", "3"}},
      {"report.hash_steps", {"0", "1", "4"}},
  };
  for (const codec::CodecRow& row : codec::codec_table())
    for (std::string& levels : coded_levels(row)) axes.front().values.push_back(std::move(levels));
  return axes;
}

const std::vector<Axis>& axes() {
  static const std::vector<Axis> kAxes = all_axes();
  return kAxes;
}

/// Slow enough that updates take about as long as messages: otherwise a slow device would change nothing.
plan::HostModel host() {
  plan::HostModel host;
  host.device = {.flops = 1e9, .memory_bandwidth = 200e6};
  host.inside = {.latency = 1e-6, .bandwidth = 10e9};
  host.network = {.latency = 8e-6, .overhead = 2e-6, .bandwidth = 100e6, .eager = 256};
  return host;
}

plan::ClusterModel separate_hosts(int ranks) {
  plan::HostModel each = host();
  each.count = ranks;
  return {.hosts = {each}};
}
plan::ClusterModel one_host(int ranks) {
  plan::HostModel all = host();
  all.devices = ranks;
  return {.hosts = {all}};
}
plan::ClusterModel pairs(int ranks) {
  plan::HostModel two = host();
  two.devices = 2;
  two.count = (ranks + 1) / 2;
  return {.hosts = {two}};
}

struct Layout {
  std::string_view name;
  plan::ClusterModel (*make)(int ranks);
};
constexpr Layout kLayouts[] = {{"separate hosts", separate_hosts}, {"one host", one_host}, {"pairs", pairs}};

template <class Table>
const auto& any_of(Rng& rng, const Table& table) {
  return table[rng.below(std::size(table))];
}

}  // namespace

JobShape draw_shape(std::uint64_t seed, int attempt) {
  Rng rng(seed, "shape", static_cast<std::uint64_t>(attempt));
  JobShape shape;
  shape.ranks = kFewestRanks + static_cast<int>(rng.below(kMostRanks - kFewestRanks + 1));
  shape.layout = any_of(rng, kLayouts).name;
  for (const Axis& axis : axes())
    shape.settings.push_back(fmt::format("{}={}", axis.key, any_of(rng, axis.values)));
  return shape;
}

plan::Plan lay_over(const plan::Plan& recipe, const JobShape& shape, const plan::Catalogue& known) {
  return plan::override_plan(recipe, shape.settings, &known);
}

plan::ClusterModel make_cluster(const JobShape& shape) {
  for (const Layout& layout : kLayouts)
    if (layout.name == shape.layout) return layout.make(shape.ranks);
  TAXON_CHECK(false, "no layout is called ", shape.layout);
}

std::string describe(const JobShape& shape) {
  return fmt::format("{} ranks, {}: {}", shape.ranks, shape.layout, fmt::join(shape.settings, " "));
}

}  // namespace taxon::faults
