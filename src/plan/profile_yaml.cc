#include <fmt/format.h>

#include "base/error.h"
#include "plan/profile_fields.h"
#include "plan/section_reader.h"
#include "plan/section_writer.h"
#include "plan/yaml_file.h"

namespace taxon::plan {
namespace {

const std::vector<std::string>& profile_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> all;
    ModelProfile profile;
    collect_keys(profile, "", all);
    return all;
  }();
  return keys;
}

}  // namespace

ModelProfile parse_profile(const std::string& yaml, const std::string& origin) {
  ModelProfile profile;
  SectionReader reader(profile_keys(), "a profile");
  std::vector<std::string> problems;
  read_document(yaml, origin, problems,
                [&](const YAML::Node& root) { reader.document(root, profile, origin); });
  for (std::string& problem : reader.problems()) problems.push_back(std::move(problem));
  for (const std::string& problem : profile_problems(profile))
    problems.push_back(fmt::format("{}: {}", origin, problem));
  if (!problems.empty()) throw Error(ErrorKind::Usage, fmt::format("{}", fmt::join(problems, "\n")));
  return profile;
}

ModelProfile read_profile(const std::string& path) { return parse_profile(read_text(path), path); }

std::string write_profile(const ModelProfile& profile) {
  SectionWriter writer;
  writer.section(profile);
  return writer.text();
}

}  // namespace taxon::plan
