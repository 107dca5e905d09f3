#include "apps/taxon/commands/parallel.h"

#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/taxon/commands/command.h"
#include "apps/taxon/commands/own_options.h"
#include "base/error.h"
#include "base/problems.h"
#include "base/units.h"
#include "parallel/balance.h"
#include "plan/cluster.h"

namespace taxon::app {
namespace {

using Json = nlohmann::ordered_json;

struct SplitFindings {
  parallel::Network network;
  parallel::BalanceInput input;
  std::vector<parallel::LayerBalance> lines;
  std::optional<plan::ClusterModel> cluster;

  const plan::HostModel& host() const { return cluster->hosts.front(); }
  /// Operations that a worker does while its link carries a byte; 0: nothing is known of them.
  double balance() const {
    if (!cluster || !(host().device.flops > 0) || !(host().network.bandwidth > 0)) return 0;
    return host().device.flops / host().network.bandwidth;
  }
};

SplitFindings find(const ParallelArguments& arguments) {
  Problems problems;
  SplitFindings all;
  const plan::Options options = parse_own_options(arguments.options, "--set", problems);
  const parallel::NetworkRow* row = nullptr;
  problems.collect([&] {
    row = &parallel::find_network(arguments.network);
    all.network = parallel::make_network(*row, options);
  });
  if (!arguments.cluster.empty())
    problems.collect([&] { all.cluster = plan::read_cluster(arguments.cluster, arguments.workers); });
  all.input.workers = arguments.workers;
  if (arguments.workers == 0) all.input.workers = all.cluster ? plan::capacity(*all.cluster) : 1;
  all.input.batch = arguments.batch > 0 || !row ? std::max(arguments.batch, 1) : row->batch;
  all.input.overlap = arguments.overlap;
  for (const std::string& problem : parallel::balance_problems(all.network, all.input)) problems.add(problem);
  problems.require_none();
  all.lines = parallel::balance(all.network, all.input);
  return all;
}

std::string ratio_text(const std::optional<double>& ratio) {
  return ratio ? fmt::format("{:.0f}", *ratio) : std::string("-");
}

std::string megabytes(double bytes) {
  return bytes > 0 ? fmt::format("{:.2f}", bytes / 1e6) : std::string("-");
}

std::string choice(const parallel::LayerBalance& line, int workers) {
  if (line.split != parallel::Split::Hybrid) return std::string(plan::to_string(line.split));
  return fmt::format("hybrid, {} groups of {}", line.groups, workers / line.groups);
}

struct Totals {
  double flops = 0, data = 0, chosen = 0;
};
Totals totals(const SplitFindings& all) {
  Totals sums;
  for (const parallel::LayerBalance& line : all.lines) {
    sums.flops += line.flops;
    sums.data += line.data_bytes;
    sums.chosen += line.bytes;
  }
  return sums;
}

/// Where the choice is none of the divisors beside the ideal number of groups.
std::string rounding_note(const SplitFindings& all) {
  std::string note;
  for (const parallel::LayerBalance& line : all.lines)
    if (line.layer->weights > 0 && line.groups != line.rounded_groups)
      note += fmt::format("{}: the divisors of {} beside {:.2f} are not the best ones, {} is\n",
                          line.layer->name, all.input.workers, line.ideal_groups, line.groups);
  return note;
}

std::string cluster_text(const SplitFindings& all) {
  if (!all.cluster) return "";
  if (all.balance() == 0)
    return fmt::format("cluster {}: device.flops or network.bandwidth is not given, so no times\n",
                       all.cluster->name);
  const Totals sums = totals(all);
  const double flops = all.host().device.flops, bandwidth = all.host().network.bandwidth;
  return fmt::format(
      "{}: a worker does {:.0f} operations while its link carries a byte; layers below that ratio wait for "
      "it\n"
      "a step computes for {}, and sends for {} all in data parallelism, {} as chosen\n",
      all.cluster->name, all.balance(), format_seconds(sums.flops / flops),
      format_seconds(sums.data / bandwidth), format_seconds(sums.chosen / bandwidth));
}

std::string to_text(const SplitFindings& all) {
  std::size_t name = 5, shape = 5;
  for (const parallel::Layer& layer : all.network.layers) {
    name = std::max(name, layer.name.size());
    shape = std::max(shape, layer.shape.size());
  }
  std::string text = fmt::format(
      "{}: {:.1f} M parameters, {:.4g} GFLOP for each {}; {} workers, {} samples a step\n", all.network.name,
      static_cast<double>(parallel::parameters(all.network)) / 1e6,
      parallel::training_flops(all.network) / 1e9, all.network.sample, all.input.workers, all.input.batch);
  text += fmt::format("{:<{}}  {:<{}} {:>10} {:>10} {:>9} {:>10} {:>10} {:>8} {:>10} {:>9}  {}\n", "layer",
                      name, "shape", shape, "weights, M", "GFLOP", "of data", "data, MB", "model, MB", "G*",
                      "chosen, MB", "ratio", "choice");
  for (const parallel::LayerBalance& line : all.lines)
    text += fmt::format(
        "{:<{}}  {:<{}} {:>10.3f} {:>10.3f} {:>9} {:>10} {:>10} {:>8} {:>10} {:>9}  {}\n", line.layer->name,
        name, line.layer->shape, shape, static_cast<double>(line.layer->weights) / 1e6, line.flops / 1e9,
        ratio_text(line.data_ratio()), megabytes(line.data_bytes), megabytes(line.model_bytes),
        line.layer->weights > 0 ? fmt::format("{:.2f}", line.ideal_groups) : "-", megabytes(line.bytes),
        ratio_text(line.chosen_ratio()), choice(line, all.input.workers));
  const Totals sums = totals(all);
  text += fmt::format("sent by a worker in a step: {:.1f} MB all in data parallelism, {:.1f} MB as chosen\n",
                      sums.data / 1e6, sums.chosen / 1e6);
  text += rounding_note(all) + cluster_text(all);
  return text +
         "of data, of it: operations of a worker for each byte that it sends, in data parallelism and as "
         "chosen; G*: "
         "where "
         "the bytes of a hybrid are least (docs/parallelism.md)\n";
}

Json ratio_json(const std::optional<double>& ratio) { return ratio ? Json(*ratio) : Json(nullptr); }

std::string to_json(const SplitFindings& all) {
  Json json = {{"network", all.network.name},
               {"workers", all.input.workers},
               {"batch", all.input.batch},
               {"overlap", all.input.overlap},
               {"parameters", parallel::parameters(all.network)},
               {"flops_per_sample", parallel::training_flops(all.network)},
               {"flops_per_byte", all.balance() > 0 ? Json(all.balance()) : Json(nullptr)},
               {"layers", Json::array()}};
  for (const parallel::LayerBalance& line : all.lines)
    json["layers"].push_back({{"name", line.layer->name},
                              {"weights", line.layer->weights},
                              {"flops", line.flops},
                              {"data_bytes", line.data_bytes},
                              {"model_bytes", line.model_bytes},
                              {"ideal_groups", line.ideal_groups},
                              {"rounded_groups", line.rounded_groups},
                              {"groups", line.groups},
                              {"split", plan::to_string(line.split)},
                              {"bytes", line.bytes},
                              {"data_ratio", ratio_json(line.data_ratio())},
                              {"ratio", ratio_json(line.chosen_ratio())}});
  return json.dump(2) + "\n";
}

std::string networks_json() {
  Json json = Json::array();
  for (const parallel::NetworkRow& row : parallel::network_table()) {
    json.push_back(Json{{"network", row.name},
                        {"sentence", row.sentence},
                        {"source", row.source},
                        {"batch", row.batch},
                        {"options", names_of(row.options())}});
  }
  return json.dump(2) + "\n";
}

}  // namespace

int run_parallel(const ParallelArguments& arguments) {
  return run_alone([&] {
    if (arguments.network.empty()) {
      std::cout << (arguments.json ? networks_json() : list_of(parallel::network_table()));
      return 0;
    }
    const SplitFindings all = find(arguments);
    std::cout << (arguments.json ? to_json(all) : to_text(all));
    return 0;
  });
}

}  // namespace taxon::app
