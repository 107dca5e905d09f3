#include "plan/section_reader.h"

namespace taxon::plan {

std::vector<std::string> SectionReader::problems() const {
  std::vector<Found> sorted = found_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Found& a, const Found& b) { return a.source.order < b.source.order; });
  std::vector<std::string> texts;
  for (const Found& found : sorted) texts.push_back(found.source.words + ": " + found.text);
  return texts;
}

void SectionReader::settle_options(
    Options& options, const std::string& path, const std::vector<OptionKey>& known,
    const std::function<std::optional<std::string>(const std::string& key, const std::string& text)>&
        refusal) {
  for (const auto& [key, text] : Options::Given(options.given())) {
    const auto given =
        std::find_if(given_options_.rbegin(), given_options_.rend(),
                     [&](const GivenOption& option) { return option.path == path && option.key == key; });
    const auto row =
        std::find_if(known.begin(), known.end(), [&](const OptionKey& option) { return option.key == key; });
    std::optional<std::string> wrong;
    if (row == known.end()) {
      options.erase(key);
      if (given != given_options_.rend()) wrong = refusal(key, text);
    } else if (const auto canonical = row->canonical(text)) {
      options.set(key, *canonical);
    } else {
      // What another source gave was right for the row that it named.
      options.erase(key);
      if (given != given_options_.rend())
        wrong = fmt::format("{}.{} must be {}, but is \"{}\"", path, key, row->allowed, text);
    }
    if (wrong) found_.push_back({given->source, *wrong});
  }
}

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

std::optional<std::string> option_text(const YAML::Node& node) {
  if (node.IsScalar()) return node.Scalar();
  if (!node.IsSequence()) return {};
  std::vector<std::string> elements;
  for (const YAML::Node& element : node) {
    if (!element.IsScalar()) return {};
    elements.push_back(element.Scalar());
  }
  return fmt::format("[{}]", fmt::join(elements, ", "));
}

YAML::Node SectionReader::spelled_out(const Field& field, const YAML::Node& word) {
  YAML::Node section(YAML::NodeType::Map);
  section.force_insert(std::string(field.word), word);
  return section;
}

YAML::Node SectionReader::nested(const std::string& assignment) {
  auto complain_here = [&](const std::string& text) {
    found_.push_back({{overrides_, origin_}, text});
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
