#include <fmt/format.h>

#include "base/error.h"
#include "plan/cluster_fields.h"
#include "plan/section_reader.h"
#include "plan/section_writer.h"
#include "plan/yaml_file.h"

namespace taxon::plan {
namespace {

const std::vector<std::string>& cluster_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> all;
    ClusterModel cluster;
    collect_keys(cluster, "", all);
    return all;
  }();
  return keys;
}

}  // namespace

ClusterModel parse_cluster(const std::string& yaml, const std::string& origin, int world_size) {
  ClusterModel cluster;
  SectionReader reader(cluster_keys(), "a cluster file");
  std::vector<std::string> problems;
  read_document(yaml, origin, problems,
                [&](const YAML::Node& root) { reader.document(root, cluster, origin); });
  for (std::string& problem : reader.problems()) problems.push_back(std::move(problem));
  for (const std::string& problem : cluster_problems(cluster, world_size))
    problems.push_back(fmt::format("{}: {}", origin, problem));
  if (!problems.empty()) throw Error(ErrorKind::Usage, fmt::format("{}", fmt::join(problems, "\n")));
  return cluster;
}

ClusterModel read_cluster(const std::string& path, int world_size) {
  return parse_cluster(read_text(path), path, world_size);
}

std::string write_cluster(const ClusterModel& cluster) {
  SectionWriter writer;
  writer.section(cluster);
  return writer.text();
}

}  // namespace taxon::plan
