#include "plan/axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace taxon::plan {
namespace {

std::string with_dashes(std::string text) {
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

bool is_met(const LevelPlan& level) { return level.rule != "sum"; }

std::string owner_of(const LevelPlan& level, const Catalogue& known) {
  const Catalogue::Topology* topology = known.find_topology(level.topology);
  if (is_met(level)) {
    if (topology && !topology->scheduling.empty()) return "replicas, mixed";
    const Catalogue::Outer* rule = known.find_outer(level.rule);
    const bool has_words = rule && !rule->replicas.empty();
    return fmt::format("replicas, {}", has_words ? rule->replicas : with_dashes(level.rule));
  }
  const bool has_words = topology && !topology->optimisation.empty();
  const std::string owner = has_words ? topology->optimisation : with_dashes(level.topology);
  return known.shards_parameters(level) ? owner + " with the parameters" : owner;
}

void add_once(std::vector<std::string>& list, std::string text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(std::move(text));
}

/// Of "reduce_scatter ring" the algorithm.
std::string algorithm(const std::string& collective) { return collective.substr(collective.rfind(' ') + 1); }

/// What `auto` became. Only a single level's collectives can be told from the list of a bucket.
std::string chosen(const Plan& plan) {
  if (plan.exchange.levels.size() != 1) return "auto";
  std::vector<std::string> names;
  for (const BucketPlan& bucket : plan.resolved.buckets)
    for (const std::string& collective : bucket.collectives) add_once(names, algorithm(collective));
  return names.empty() ? "auto" : fmt::format("{}", fmt::join(names, ", "));
}

std::string optimisation(const Plan& plan, const Catalogue& known) {
  // From the outside inward: what the outermost level owns is what the others work on.
  std::vector<std::string> owners;
  for (auto level = plan.exchange.levels.rbegin(); level != plan.exchange.levels.rend(); ++level)
    add_once(owners, owner_of(*level, known));
  if (owners.size() == 2) std::erase(owners, "replicated");
  return fmt::format("{}", fmt::join(owners, "; "));
}

/// When a worker of servers may go on, and what makes an update.
std::string consistency(const LevelPlan& level, const Catalogue& known) {
  std::string text = known.bounds_of(level).words;
  if (const Catalogue::Late* late = known.find_late(level.late); late && !late->scheduling.empty())
    text += fmt::format(", {}", late->scheduling);
  return text;
}

std::string scheduling(const Plan& plan, const Catalogue& known) {
  std::string text = "synchronous";
  for (const LevelPlan& level : plan.exchange.levels) {
    const Catalogue::Topology* topology = known.find_topology(level.topology);
    if (known.sum_at(level) == SumAt::Servers)
      text = consistency(level, known);
    else if (topology && !topology->scheduling.empty())
      text = topology->scheduling;
  }
  if (plan.exchange.delay > 0) text += fmt::format(", delay {}", plan.exchange.delay);
  for (const LevelPlan& level : plan.exchange.levels) {
    if (!is_met(level)) continue;
    if (level.period > 1) text += fmt::format(", every {} steps", level.period);
    if (level.fragments > 1) text += fmt::format(" in {} fragments", level.fragments);
    if (level.delay > 0) text += fmt::format(", adopted {} later", level.delay);
  }
  return text;
}

std::string communication(const Plan& plan, const Catalogue& known) {
  const bool one = plan.exchange.levels.size() == 1;
  std::vector<std::string> levels;
  for (const LevelPlan& level : plan.exchange.levels) {
    const std::string topology = with_dashes(level.topology);
    std::string how = with_dashes(level.collective == "auto" ? chosen(plan) : level.collective);
    if (const auto* row = known.find_topology(level.topology); row && row->has_graph) how = level.graph;
    std::string text = how == "auto" ? topology : fmt::format("{} ({})", topology, how);
    levels.push_back(one ? text : fmt::format("{}: {}", level.group, text));
  }
  return fmt::format("{}", fmt::join(levels, "; "));
}

}  // namespace

std::array<std::pair<std::string_view, std::string>, 5> by_name(const Axes& axes) {
  return {{{"parallelism", axes.parallelism},
           {"optimisation", axes.optimisation},
           {"scheduling", axes.scheduling},
           {"communication", axes.communication},
           {"compression", axes.compression}}};
}

namespace {

/// "data, pipeline (1f1b), tensor".
std::string parallelism(const Plan& plan) {
  std::string axes = "data";
  if (plan.mesh.pipeline > 1) axes += fmt::format(", pipeline ({})", with_dashes(plan.pipeline.schedule));
  if (plan.mesh.tensor > 1) axes += ", tensor";
  return axes;
}

std::string compression(const Plan& plan) {
  std::string codecs;
  for (const LevelPlan& level : plan.exchange.levels) {
    const CodecPlan& codec = level.codec;
    if (level.factors != FactorUse::None) {
      codecs += (codecs.empty() ? "" : ", ");
      codecs += level.factors == FactorUse::Auto ? "sufficient factors by rule" : "sufficient factors";
      if (level.group != LevelGroup::Data) codecs += fmt::format(" {}", level.group);
    }
    if (codec.name == "none" && codec.answer == "none") continue;
    codecs += (codecs.empty() ? "" : ", ") + codec.name;
    if (codec.name == "auto") codecs += " of " + codec.of;
    if (codec.answer != "none") codecs += ", back " + codec.answer;
    if (level.group != LevelGroup::Data) codecs += fmt::format(" {}", level.group);
  }
  return codecs.empty() ? "dense" : codecs;
}

}  // namespace

Axes axes_of(const Plan& plan, const Catalogue& known) {
  return {.parallelism = parallelism(plan),
          .optimisation = optimisation(plan, known),
          .scheduling = scheduling(plan, known),
          .communication = communication(plan, known),
          .compression = compression(plan)};
}

}  // namespace taxon::plan
