#include "apps/taxon/commands/schedule.h"

#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/taxon/commands/command.h"
#include "apps/taxon/commands/own_options.h"
#include "base/error.h"
#include "base/problems.h"
#include "base/units.h"
#include "parallel/pipeline.h"
#include "plan/cluster.h"
#include "program/check.h"
#include "program/schedule.h"

namespace taxon::app {
namespace {

using Json = nlohmann::ordered_json;

/// A network over the stages, where one was asked for.
struct Placed {
  parallel::Network network;
  parallel::PipelineInput input;
  parallel::Pipeline pipeline;
};

struct ScheduleFindings {
  const program::ScheduleRow* row = nullptr;
  program::Program program;
  program::Timeline timeline;  // with unit costs
  std::vector<program::StageMemory> stages;
  std::vector<int> activations;  // [rank]
  std::optional<int> room;
  std::optional<Placed> placed;
};

/// What the workers of a cluster can do, as far as a pipeline asks.
void take_cluster(const plan::ClusterModel& cluster, parallel::PipelineInput& input, Problems& problems) {
  const plan::HostModel& host = cluster.hosts.front();
  input.flops = host.device.flops;
  if (!(input.flops > 0))
    problems.add(
        fmt::format("cluster {}: its first hosts have no device.flops, which times need", cluster.name));
  input.memory = static_cast<double>(host.device.memory);
  const plan::LinkModel& link = cluster.hosts.size() == 1 && host.count == 1 ? host.inside : host.network;
  input.bandwidth = link.bandwidth;
  input.latency = link.latency + link.overhead;
}

std::optional<Placed> read_network(const ScheduleArguments& arguments, Problems& problems) {
  if (arguments.network.empty()) {
    if (!arguments.cluster.empty())
      problems.add("--cluster needs --network: without one passes take a unit each");
    if (!arguments.network_options.empty()) problems.add("--network-set needs --network");
    if (arguments.batch != 0) problems.add("--batch needs --network");
    return std::nullopt;
  }
  Placed placed;
  placed.input.batch = arguments.batch > 0 ? arguments.batch : arguments.micros;
  placed.input.flops = 1e12;
  const plan::Options options = parse_own_options(arguments.network_options, "--network-set", problems);
  problems.collect(
      [&] { placed.network = parallel::make_network(parallel::find_network(arguments.network), options); });
  if (!arguments.cluster.empty())
    problems.collect([&] { take_cluster(plan::read_cluster(arguments.cluster), placed.input, problems); });
  return placed;
}

ScheduleFindings find(const ScheduleArguments& arguments) {
  Problems problems;
  ScheduleFindings all;
  const plan::Options options = parse_own_options(arguments.options, "--set", problems);
  problems.collect([&] { all.row = &program::find_schedule(arguments.row); });
  if (all.row)
    for (const std::string& problem :
         program::shape_problems(*all.row, {arguments.stages, arguments.micros}, options))
      problems.add(problem);
  all.placed = read_network(arguments, problems);
  problems.require_none();
  all.program = program::make_program(*all.row, {arguments.stages, arguments.micros}, options);
  // The rows are Taxon's own, and tested.
  const std::vector<std::string> wrong = program::program_problems(all.program);
  if (!wrong.empty()) throw Error(ErrorKind::Internal, fmt::format("{}", fmt::join(wrong, "\n")));
  const std::vector<program::StageCost> units(static_cast<std::size_t>(arguments.stages));
  all.timeline = program::evaluate(all.program, units);
  all.stages = program::stage_memory(all.program);
  all.activations = program::rank_activations(all.program);
  all.room = program::least_room(all.program);
  if (all.placed)
    all.placed->pipeline = parallel::plan_pipeline(all.placed->network, all.program, all.placed->input);
  return all;
}

std::string stages_of(const program::Program& program, int rank) {
  std::vector<int> held;
  for (int stage = 0; stage < program.stages; ++stage)
    if (program.rank_at(stage) == rank) held.push_back(stage);
  return fmt::format("{}", fmt::join(held, " "));
}

int most_versions(const ScheduleFindings& all, int rank) {
  int most = 0;
  for (int stage = 0; stage < all.program.stages; ++stage)
    if (all.program.rank_at(stage) == rank)
      most = std::max(most, all.stages[static_cast<std::size_t>(stage)].versions);
  return most;
}

std::string placed_text(const ScheduleFindings& all) {
  const Placed& placed = *all.placed;
  const parallel::Pipeline& pipeline = placed.pipeline;
  std::string text = fmt::format(
      "\n{}, a batch of {} as micro-batches of {}, workers of {:.4g} TFLOP/s{}:\n"
      "{:<6} {:<40} {:>12} {:>12} {:>12}\n",
      placed.network.name, placed.input.batch, placed.input.batch / all.program.micros,
      placed.input.flops / 1e12,
      placed.input.bandwidth > 0 ? fmt::format(", links of {:.4g} Gbit/s", placed.input.bandwidth * 8e-9)
                                 : "",
      "stage", "layers", "passes", "transfers", "memory");
  for (std::size_t stage = 0; stage < pipeline.stages.size(); ++stage) {
    const parallel::StageUse& use = pipeline.stages[stage];
    const auto& layers = placed.network.layers;
    const std::string& first = layers[static_cast<std::size_t>(use.first)].name;
    const std::string& last = layers[static_cast<std::size_t>(use.last)].name;
    text += fmt::format("{:<6} {:<40} {:>12} {:>12} {:>12}\n", stage,
                        use.first == use.last ? first : first + " to " + last, format_seconds(use.compute),
                        format_seconds(use.transfer), format_bytes(use.bytes));
  }
  double most = 0;
  for (const program::RankUse& rank : pipeline.timeline.ranks) most = std::max(most, rank.peak_bytes);
  return text + fmt::format("{}: {}, {:.1f} % of it without work; a rank's memory is at most {}\n",
                            all.row->flushes ? "step" : "from start to flush",
                            format_seconds(pipeline.timeline.seconds), 100 * pipeline.timeline.bubble(),
                            format_bytes(most));
}

std::string to_text(const ScheduleFindings& all) {
  const program::ScheduleRow& row = *all.row;
  std::string text = fmt::format(
      "{}: {} ({})\n{} stages on {} ranks, {} micro-batches; F is a forward pass of one unit, {}\n\n{}\n",
      row.name, row.sentence, row.source, all.program.stages, all.program.ranks.size(), all.program.micros,
      row.splits_backward ? "I and W are gradients of inputs and of weights, of one each"
                          : "B a backward pass of two",
      program::draw(all.program, all.timeline));
  text += fmt::format("bubble: {:.1f} % of {:.0f} units ({})\n", 100 * all.timeline.bubble(),
                      all.timeline.seconds, row.bubble);
  text +=
      fmt::format("updates: {}\n",
                  row.flushes ? "one, of all micro-batches: what one process would compute" : row.scheduling);
  text += fmt::format("channels: {}\n", all.room == 0
                                            ? "a send may wait for its receive"
                                            : fmt::format("room for {} message{} of a kind between two ranks",
                                                          *all.room, *all.room == 1 ? "" : "s"));
  text += fmt::format("{:<6} {:<12} {:>9} {:>9} {:>22} {:>20}\n", "rank", "stages", "busy", "idle",
                      "activations kept", "versions of weights");
  for (std::size_t rank = 0; rank < all.program.ranks.size(); ++rank)
    text += fmt::format("{:<6} {:<12} {:>9.0f} {:>9.0f} {:>22} {:>20}\n", rank,
                        stages_of(all.program, static_cast<int>(rank)), all.timeline.ranks[rank].busy,
                        all.timeline.ranks[rank].idle, all.activations[rank],
                        most_versions(all, static_cast<int>(rank)));
  return all.placed ? text + placed_text(all) : text;
}

Json placed_json(const ScheduleFindings& all) {
  const Placed& placed = *all.placed;
  Json json = {{"network", placed.network.name},
               {"batch", placed.input.batch},
               {"seconds", placed.pipeline.timeline.seconds},
               {"bubble", placed.pipeline.timeline.bubble()},
               {"stages", Json::array()},
               {"peak_bytes", Json::array()}};
  for (const parallel::StageUse& use : placed.pipeline.stages)
    json["stages"].push_back({{"first", placed.network.layers[static_cast<std::size_t>(use.first)].name},
                              {"last", placed.network.layers[static_cast<std::size_t>(use.last)].name},
                              {"pass_seconds", use.compute},
                              {"transfer_seconds", use.transfer},
                              {"bytes", use.bytes}});
  for (const program::RankUse& rank : placed.pipeline.timeline.ranks)
    json["peak_bytes"].push_back(rank.peak_bytes);
  return json;
}

std::string to_json(const ScheduleFindings& all) {
  Json json = {
      {"schedule", all.row->name},   {"stages", all.program.stages},  {"micro_batches", all.program.micros},
      {"flushes", all.row->flushes}, {"units", all.timeline.seconds}, {"bubble", all.timeline.bubble()},
      {"room", *all.room},           {"stage_memory", Json::array()}, {"ranks", Json::array()}};
  for (const program::StageMemory& stage : all.stages)
    json["stage_memory"].push_back({{"activations", stage.activations}, {"versions", stage.versions}});
  for (std::size_t rank = 0; rank < all.program.ranks.size(); ++rank) {
    Json actions = Json::array();
    for (const program::Action& action : all.program.ranks[rank])
      actions.push_back({{"action", plan::to_string(action.kind)},
                         {"stage", action.stage},
                         {"micro_batch", action.micro},
                         {"version", action.version}});
    json["ranks"].push_back({{"busy", all.timeline.ranks[rank].busy},
                             {"idle", all.timeline.ranks[rank].idle},
                             {"activations", all.activations[rank]},
                             {"actions", std::move(actions)}});
  }
  if (all.placed) json["placed"] = placed_json(all);
  return json.dump(2) + "\n";
}

std::string schedules_json() {
  Json json = Json::array();
  for (const program::ScheduleRow& row : program::schedule_table()) {
    json.push_back(Json{{"schedule", row.name},
                        {"sentence", row.sentence},
                        {"source", row.source},
                        {"flushes", row.flushes},
                        {"splits_backward", row.splits_backward},
                        {"bubble", row.bubble},
                        {"activations", row.activations},
                        {"versions", row.versions},
                        {"options", names_of(row.options())}});
  }
  return json.dump(2) + "\n";
}

}  // namespace

int run_schedule(const ScheduleArguments& arguments) {
  return run_alone([&] {
    if (arguments.row.empty()) {
      std::cout << (arguments.json ? schedules_json() : list_of(program::schedule_table()));
      return 0;
    }
    const ScheduleFindings all = find(arguments);
    std::cout << (arguments.json ? to_json(all) : to_text(all));
    return 0;
  });
}

}  // namespace taxon::app
