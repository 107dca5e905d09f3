#include <fmt/format.h>

#include "base/error.h"
#include "plan/reader.h"
#include "plan/section_writer.h"
#include "plan/yaml_file.h"

namespace taxon::plan {

Plan parse_plan(const std::string& yaml, const std::string& origin,
                const std::vector<std::string>& overrides) {
  Plan plan;
  Reader file(plan), command_line(plan);
  std::vector<std::string> problems;
  read_document(yaml, origin, problems, [&](const YAML::Node& root) { file.document(root, origin); });
  for (const std::string& assignment : overrides) command_line.override_key(assignment);
  for (const Reader* reader : {&file, &command_line})
    problems.insert(problems.end(), reader->problems().begin(), reader->problems().end());
  if (!problems.empty()) throw Error(ErrorKind::Usage, fmt::format("{}", fmt::join(problems, "\n")));
  return plan;
}

Plan override_plan(Plan plan, const std::vector<std::string>& overrides) {
  Reader command_line(plan);
  for (const std::string& assignment : overrides) command_line.override_key(assignment);
  if (const auto& problems = command_line.problems(); !problems.empty())
    throw Error(ErrorKind::Usage, fmt::format("{}", fmt::join(problems, "\n")));
  return plan;
}

Plan read_plan(const std::string& path, const std::vector<std::string>& overrides) {
  return parse_plan(read_text(path), path, overrides);
}

std::string write_plan(const Plan& plan) {
  SectionWriter writer;
  writer.section(plan);
  return writer.text();
}

}  // namespace taxon::plan
