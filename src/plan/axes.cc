#include "plan/axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace taxon::plan {
namespace {

/// Who owns what where contributions meet in a topology.
struct OwnerRow {
  std::string_view topology, optimisation;
};
constexpr OwnerRow kOwners[] = {{"all_reduce", "replicated"}, {"sharded", "sharded"}};

std::string owner_of(const std::string& topology) {
  for (const OwnerRow& row : kOwners)
    if (row.topology == topology) return std::string(row.optimisation);
  return topology;
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
    add_once(owners, owner_of(level->topology));
  if (owners.size() == 2) std::erase(owners, "replicated");
  return fmt::format("{}", fmt::join(owners, ", "));
}

std::string scheduling(const Plan& plan) {
  if (plan.exchange.delay == 0) return "synchronous";
  return fmt::format("synchronous, delay {}", plan.exchange.delay);
}

std::string communication(const Plan& plan) {
  const bool one = plan.exchange.levels.size() == 1;
  std::vector<std::string> levels;
  for (const LevelPlan& level : plan.exchange.levels) {
    std::string collective = level.collective == "auto" ? chosen(plan) : level.collective;
    std::replace(collective.begin(), collective.end(), '_', '-');
    std::string topology = level.topology;
    std::replace(topology.begin(), topology.end(), '_', '-');
    std::string text = collective == "auto" ? topology : fmt::format("{} ({})", topology, collective);
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

Axes axes_of(const Plan& plan) {
  return {.parallelism = "data",
          .optimisation = optimisation(plan),
          .scheduling = scheduling(plan),
          .communication = communication(plan),
          .compression = "dense"};
}

}  // namespace taxon::plan
