#include "plan/changes.h"

#include <yaml-cpp/yaml.h>

#include <optional>

namespace taxon::plan {
namespace {

bool is_list_of_sections(const YAML::Node& node) {
  return node.IsSequence() && node.size() > 0 && node[0].IsMap();
}

/// What of `node` is not in `usual`, which has the same keys.
std::optional<YAML::Node> changes(const YAML::Node& node, const YAML::Node& usual) {
  if (YAML::Dump(node) == YAML::Dump(usual)) return {};
  if (node.IsMap()) {
    YAML::Node kept(YAML::NodeType::Map);
    for (const auto& entry : node)
      if (const auto changed = changes(entry.second, usual[entry.first.as<std::string>()]))
        kept[entry.first] = *changed;
    return kept;
  }
  if (!is_list_of_sections(node) || !is_list_of_sections(usual)) return node;
  YAML::Node kept(YAML::NodeType::Sequence);
  for (const YAML::Node& element : node)
    kept.push_back(changes(element, usual[0]).value_or(YAML::Node(YAML::NodeType::Map)));
  return kept;
}

}  // namespace

std::string write_changes(const Plan& plan, const Catalogue* catalogue) {
  Plan asked = plan;
  asked.resolved = {};
  Plan named, usual;
  named.model.name = plan.model.name;
  named.task.name = plan.task.name;
  named.optimiser.rule = plan.optimiser.rule;
  named.learning_rate.schedule = plan.learning_rate.schedule;
  named.pipeline.schedule = plan.pipeline.schedule;
  named.data.dataset = plan.data.dataset;
  if (catalogue) named = override_plan(std::move(named), {}, catalogue);
  usual.model.options = named.model.options;
  usual.task.options = named.task.options;
  usual.optimiser.options = named.optimiser.options;
  usual.learning_rate.options = named.learning_rate.options;
  usual.pipeline.options = named.pipeline.options;
  usual.data.options = named.data.options;
  const auto kept = changes(YAML::Load(write_plan(asked)), YAML::Load(write_plan(usual)));
  return kept ? YAML::Dump(*kept) + "\n" : "{}\n";
}

}  // namespace taxon::plan
