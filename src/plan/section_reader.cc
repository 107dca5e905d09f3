#include "plan/section_reader.h"

namespace taxon::plan {

// exchange.levels[0].group is the known key exchange.levels.group.
std::string SectionReader::without_indices(const std::string& path) {
  std::string plain;
  bool inside = false;
  for (char c : path) {
    if (c == '[') inside = true;
    if (!inside) plain += c;
    if (c == ']') inside = false;
  }
  return plain;
}

std::string SectionReader::shown(const YAML::Node& node) {
  if (node.IsMap()) return "a section";
  if (node.IsSequence()) return "a list";
  if (node.IsNull()) return "empty";
  return '"' + node.Scalar() + '"';
}

YAML::Node SectionReader::spelled_out(const Field& field, const YAML::Node& word) {
  YAML::Node section(YAML::NodeType::Map);
  section.force_insert(std::string(field.word), word);
  return section;
}

YAML::Node SectionReader::nested(const std::string& assignment) {
  auto complain_here = [&](const std::string& text) {
    problems_.push_back(fmt::format("--set {}: {}", assignment, text));
    return YAML::Node();
  };
  auto equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) return complain_here("must read key.path=value");
  std::string path = assignment.substr(0, equals), text = assignment.substr(equals + 1);
  YAML::Node node;
  try {
    node = text.empty() ? YAML::Node("") : YAML::Load(text);
  } catch (const YAML::Exception& error) {
    return complain_here("the value is no YAML: " + error.msg);
  }
  while (true) {
    auto dot = path.rfind('.');
    YAML::Node outer(YAML::NodeType::Map);
    outer.force_insert(dot == std::string::npos ? path : path.substr(dot + 1), node);
    node.reset(outer);
    if (dot == std::string::npos) break;
    path.resize(dot);
  }
  return node;
}

}  // namespace taxon::plan
