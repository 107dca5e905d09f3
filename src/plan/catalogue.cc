#include "plan/catalogue.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/model_file.h"

namespace taxon::plan {
namespace {

template <class Row>
const Row* find(const std::vector<Row>& rows, std::string_view name) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

template <class Row>
void add_keys(const Row* row, std::vector<OptionKey>& keys) {
  if (!row) return;
  for (const OptionKey& key : row->options)
    if (std::none_of(keys.begin(), keys.end(), [&](const OptionKey& k) { return k.key == key.key; }))
      keys.push_back(key);
}

}  // namespace

const Catalogue::Rule* Catalogue::find_rule(std::string_view name) const { return find(rules, name); }
const Catalogue::Schedule* Catalogue::find_schedule(std::string_view name) const {
  return find(schedules, name);
}
const Catalogue::Pipeline* Catalogue::find_pipeline(std::string_view name) const {
  return find(pipelines, name);
}
const Catalogue::Model* Catalogue::find_model(std::string_view name) const { return find(models, name); }
const Catalogue::Task* Catalogue::find_task(std::string_view name) const { return find(tasks, name); }
const Catalogue::Dataset* Catalogue::find_dataset(std::string_view name) const {
  return find(datasets, name);
}
const Catalogue::Transform* Catalogue::find_transform(std::string_view name) const {
  return find(transforms, name);
}
const Catalogue::Topology* Catalogue::find_topology(std::string_view name) const {
  return find(topologies, name);
}
const Catalogue::Graph* Catalogue::find_graph(std::string_view name) const { return find(graphs, name); }
const Catalogue::Outer* Catalogue::find_outer(std::string_view name) const { return find(outer_rules, name); }
const Catalogue::Consistency* Catalogue::find_consistency(std::string_view name) const {
  return find(consistencies, name);
}
const Catalogue::Late* Catalogue::find_late(std::string_view name) const { return find(lates, name); }
const Catalogue::Codec* Catalogue::find_codec(std::string_view name) const { return find(codecs, name); }

SumAt Catalogue::sum_at(const LevelPlan& level) const {
  const Topology* topology = find_topology(level.topology);
  return topology ? topology->sum : SumAt::Nowhere;
}

namespace {

bool are_allowed(const Options& options, const std::vector<OptionKey>& keys) {
  const auto& given = options.given();
  return std::all_of(keys.begin(), keys.end(), [&](const OptionKey& key) {
    const auto text = given.find(key.key);
    return text == given.end() || key.canonical(text->second);
  });
}

}  // namespace

ConsistencyBounds Catalogue::bounds_of(const LevelPlan& level) const {
  const Consistency* row = find_consistency(level.consistency);
  if (!row || !row->bounds || !are_allowed(level.options, row->options)) return {};
  return row->bounds(level);
}

bool Catalogue::shards_parameters(const LevelPlan& level) const {
  const Topology* row = find_topology(level.topology);
  if (!row || !row->gathered_ahead || !are_allowed(level.options, row->options)) return false;
  return row->gathered_ahead(level).has_value();
}

std::vector<OptionKey> own_keys(const CodecPlan& codec, const Catalogue& catalogue) {
  std::vector<OptionKey> keys;
  add_keys(catalogue.find_codec(codec.candidate()), keys);
  add_keys(catalogue.find_codec(codec.answer), keys);
  return keys;
}

std::vector<OptionKey> own_keys(const LevelPlan& level, const Catalogue& catalogue) {
  std::vector<OptionKey> keys;
  add_keys(catalogue.find_topology(level.topology), keys);
  add_keys(catalogue.find_outer(level.rule), keys);
  if (catalogue.sum_at(level) == SumAt::Servers)
    add_keys(catalogue.find_consistency(level.consistency), keys);
  add_keys(catalogue.find_late(level.late), keys);
  return keys;
}

std::string named_rows(const LevelPlan& level, const Catalogue& catalogue) {
  std::string rows = fmt::format("topology {} with rule {}", level.topology, level.rule);
  if (catalogue.sum_at(level) == SumAt::Servers)
    rows += fmt::format(" and consistency {}", level.consistency);
  return rows;
}

std::vector<OptionKey> own_keys(const ModelPlan& model, const Catalogue& catalogue) {
  if (comes_in_a_file(model)) return option_keys<ModelFileOptions>();
  const Catalogue::Model* row = catalogue.find_model(model.name);
  return row ? row->options : std::vector<OptionKey>();
}

std::vector<OptionKey> own_keys(const TaskPlan& task, const Catalogue& catalogue) {
  const Catalogue::Task* row = catalogue.find_task(task.name);
  return row ? row->options : std::vector<OptionKey>();
}

std::vector<OptionKey> own_keys(const OptimiserPlan& optimiser, const Catalogue& catalogue) {
  const Catalogue::Rule* rule = catalogue.find_rule(optimiser.rule);
  return rule ? rule->options : std::vector<OptionKey>();
}

std::vector<OptionKey> own_keys(const RatePlan& rate, const Catalogue& catalogue) {
  const Catalogue::Schedule* schedule = catalogue.find_schedule(rate.schedule);
  return schedule ? schedule->options : std::vector<OptionKey>();
}

std::vector<OptionKey> own_keys(const PipelinePlan& pipeline, const Catalogue& catalogue) {
  const Catalogue::Pipeline* schedule = catalogue.find_pipeline(pipeline.schedule);
  return schedule ? schedule->options : std::vector<OptionKey>();
}

std::vector<OptionKey> own_keys(const DataPlan& data, const Catalogue& catalogue) {
  const Catalogue::Dataset* dataset = catalogue.find_dataset(data.dataset);
  return dataset ? dataset->options : std::vector<OptionKey>();
}

std::vector<OptionKey> own_keys(const TransformPlan& transform, const Catalogue& catalogue) {
  const Catalogue::Transform* row = catalogue.find_transform(transform.name);
  return row ? row->options : std::vector<OptionKey>();
}

}  // namespace taxon::plan
