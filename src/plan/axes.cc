#include "plan/axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace taxon::plan {
namespace {

/// Who owns what where contributions of gradients meet in a topology.
struct OwnerRow {
  std::string_view topology, optimisation;
};
constexpr OwnerRow kOwners[] = {
    {"all_reduce", "replicated"}, {"sharded", "sharded"}, {"adasum", "replicated"}};

/// Topologies in which nobody owns what replicas become.
struct MixedRow {
  std::string_view topology, scheduling;
};
constexpr MixedRow kMixed[] = {{"gossip", "synchronous"},
                               {"pairs", "asynchronous"},
                               {"significant", "synchronous, of what is significant"}};

/// What becomes of replicas that are trained apart, where they meet.
struct RuleRow {
  std::string_view rule, replicas;
};
constexpr RuleRow kRules[] = {{"average", "averaged"},
                              {"block", "block momentum"},
                              {"block_nesterov", "block Nesterov"},
                              {"outer_momentum", "outer momentum"},
                              {"outer_nesterov", "outer Nesterov"},
                              {"slowmo", "slow momentum"},
                              {"elastic", "elastic centre"},
                              {"accumulated", "accumulated"}};

/// What becomes of contributions that come late.
struct LateRow {
  std::string_view late, words;
};
constexpr LateRow kLates[] = {{"less", "late ones count less"},
                              {"compensated", "delay compensated"},
                              {"compensated_adaptively", "delay compensated adaptively"},
                              {"moved", "late ones moved along"}};

std::string with_dashes(std::string text) {
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

bool is_met(const LevelPlan& level) { return level.rule != "sum"; }

std::string owner_of(const LevelPlan& level) {
  if (is_met(level)) {
    for (const MixedRow& row : kMixed)
      if (row.topology == level.topology) return "replicas, mixed";
    for (const RuleRow& row : kRules)
      if (row.rule == level.rule) return fmt::format("replicas, {}", row.replicas);
    return fmt::format("replicas, {}", with_dashes(level.rule));
  }
  for (const OwnerRow& row : kOwners)
    if (row.topology == level.topology) return std::string(row.optimisation);
  return with_dashes(level.topology);
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

std::string optimisation(const Plan& plan) {
  // From the outside inward: what the outermost level owns is what the others work on.
  std::vector<std::string> owners;
  for (auto level = plan.exchange.levels.rbegin(); level != plan.exchange.levels.rend(); ++level)
    add_once(owners, owner_of(*level));
  if (owners.size() == 2) std::erase(owners, "replicated");
  return fmt::format("{}", fmt::join(owners, "; "));
}

/// When a worker of servers may go on, and what makes an update (consistency as its numbers).
std::string consistency(const LevelPlan& level) {
  std::string text = "synchronous";
  if (level.staleness < 0) text = "asynchronous";
  if (level.staleness > 0) text = fmt::format("staleness {}", level.staleness);
  if (level.quorum > 0) text += fmt::format(", quorum {}", level.quorum);
  if (level.apply > 1) text += fmt::format(", {} an update", level.apply);
  for (const LateRow& row : kLates)
    if (row.late == level.late) text += fmt::format(", {}", row.words);
  return text;
}

std::string scheduling(const Plan& plan) {
  std::string text = "synchronous";
  for (const LevelPlan& level : plan.exchange.levels)
    if (level.topology == "servers")
      text = consistency(level);
    else
      for (const MixedRow& row : kMixed)
        if (row.topology == level.topology) text = row.scheduling;
  if (plan.exchange.delay > 0) text += fmt::format(", delay {}", plan.exchange.delay);
  for (const LevelPlan& level : plan.exchange.levels) {
    if (!is_met(level)) continue;
    if (level.period > 1) text += fmt::format(", every {} steps", level.period);
    if (level.fragments > 1) text += fmt::format(" in {} fragments", level.fragments);
    if (level.delay > 0) text += fmt::format(", adopted {} later", level.delay);
  }
  return text;
}

std::string communication(const Plan& plan) {
  const bool one = plan.exchange.levels.size() == 1;
  std::vector<std::string> levels;
  for (const LevelPlan& level : plan.exchange.levels) {
    const std::string topology = with_dashes(level.topology);
    std::string how = with_dashes(level.collective == "auto" ? chosen(plan) : level.collective);
    if (level.topology == "gossip") how = level.graph;
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

std::string compression(const Plan& plan) {
  std::string codecs;
  for (const LevelPlan& level : plan.exchange.levels) {
    const CodecPlan& codec = level.codec;
    if (level.factors != "none") {
      codecs += (codecs.empty() ? "" : ", ");
      codecs += level.factors == "auto" ? "sufficient factors by rule" : "sufficient factors";
      if (level.group != "data") codecs += " " + level.group;
    }
    if (codec.name == "none" && codec.answer == "none") continue;
    codecs += (codecs.empty() ? "" : ", ") + codec.name;
    if (codec.name == "auto") codecs += " of " + codec.of;
    if (codec.answer != "none") codecs += ", back " + codec.answer;
    if (level.group != "data") codecs += " " + level.group;
  }
  return codecs.empty() ? "dense" : codecs;
}

}  // namespace

Axes axes_of(const Plan& plan) {
  return {.parallelism = "data",
          .optimisation = optimisation(plan),
          .scheduling = scheduling(plan),
          .communication = communication(plan),
          .compression = compression(plan)};
}

}  // namespace taxon::plan
