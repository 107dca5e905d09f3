#include <fmt/format.h>

#include "base/error.h"
#include "plan/legality.h"
#include "plan/reader.h"
#include "plan/section_writer.h"
#include "plan/yaml_file.h"

namespace taxon::plan {

namespace {

/// Rows' keys that nobody gave, at their defaults: what a plan says does not depend on them staying what they
/// are, and plans that mean the same are equal.
void spell_out_options(Plan& plan, const Catalogue& catalogue) {
  auto spell_out = [](Options& options, const std::vector<OptionKey>& keys) {
    for (const OptionKey& key : keys)
      if (!options.given().contains(key.key)) options.set(key.key, key.standard);
  };
  spell_out(plan.model.options, own_keys(plan.model, catalogue));
  spell_out(plan.task.options, own_keys(plan.task, catalogue));
  spell_out(plan.optimiser.options, own_keys(plan.optimiser, catalogue));
  spell_out(plan.learning_rate.options, own_keys(plan.learning_rate, catalogue));
  spell_out(plan.pipeline.options, own_keys(plan.pipeline, catalogue));
  spell_out(plan.data.options, own_keys(plan.data, catalogue));
  for (TransformPlan& transform : plan.data.transforms)
    spell_out(transform.options, own_keys(transform, catalogue));
  for (LevelPlan& level : plan.exchange.levels) {
    spell_out(level.options, own_keys(level, catalogue));
    spell_out(level.codec.options, own_keys(level.codec, catalogue));
  }
}

/// Lays overrides over a plan; what is wrong with them joins `problems`.
void override_keys(Plan& plan, const std::vector<std::string>& overrides, const Catalogue* catalogue,
                   std::vector<std::string>& problems) {
  Reader command_line(plan);
  for (const std::string& assignment : overrides) command_line.override_key(assignment);
  if (catalogue) command_line.settle(*catalogue);
  for (std::string& problem : command_line.problems()) problems.push_back(std::move(problem));
  if (!catalogue) return;
  spell_out_options(plan, *catalogue);
  for (const Problem& problem : check_names(plan, *catalogue))
    problems.push_back(problem.key + ": " + problem.sentence);
}

void require_none(const std::vector<std::string>& problems) {
  if (!problems.empty()) throw Error(ErrorKind::Usage, fmt::format("{}", fmt::join(problems, "\n")));
}

}  // namespace

Plan parse_plan(const std::string& yaml, const std::string& origin, const std::vector<std::string>& overrides,
                const Catalogue* catalogue) {
  Plan plan;
  Reader file(plan);
  std::vector<std::string> problems;
  read_document(yaml, origin, problems, [&](const YAML::Node& root) { file.document(root, origin); });
  if (catalogue) file.settle(*catalogue);
  for (std::string& problem : file.problems()) problems.push_back(std::move(problem));
  override_keys(plan, overrides, catalogue, problems);
  require_none(problems);
  return plan;
}

Plan override_plan(Plan plan, const std::vector<std::string>& overrides, const Catalogue* catalogue) {
  std::vector<std::string> problems;
  override_keys(plan, overrides, catalogue, problems);
  require_none(problems);
  return plan;
}

Plan read_plan(const std::string& path, const std::vector<std::string>& overrides,
               const Catalogue* catalogue) {
  return parse_plan(read_text(path), path, overrides, catalogue);
}

std::string write_plan(const Plan& plan) {
  SectionWriter writer;
  writer.section(plan);
  return writer.text();
}

}  // namespace taxon::plan
