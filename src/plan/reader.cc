#include "plan/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "plan/nearest.h"
#include "plan/text.h"

namespace taxon::plan {
namespace {

template <class T>
void collect_keys(T& section, const std::string& prefix, std::vector<std::string>& keys) {
  visit_fields(section, [&](const Field& field, auto& member) {
    using M = std::remove_cvref_t<decltype(member)>;
    std::string path = prefix + std::string(field.key);
    keys.push_back(path);
    if constexpr (Section<M>)
      collect_keys(member, path + ".", keys);
    else if constexpr (requires { typename M::value_type; }) {
      if constexpr (Section<typename M::value_type>) {
        typename M::value_type element;
        collect_keys(element, path + ".", keys);
      }
    }
  });
}

// exchange.levels[0].group is the known key exchange.levels.group.
std::string without_indices(const std::string& path) {
  std::string plain;
  bool inside = false;
  for (char c : path) {
    if (c == '[') inside = true;
    if (!inside) plain += c;
    if (c == ']') inside = false;
  }
  return plain;
}

std::string shown(const YAML::Node& node) {
  if (node.IsMap()) return "a section";
  if (node.IsSequence()) return "a list";
  if (node.IsNull()) return "empty";
  return '"' + node.Scalar() + '"';
}

std::string join(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

}  // namespace

const std::vector<std::string>& known_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> all;
    Plan plan;
    collect_keys(plan, "", all);
    return all;
  }();
  return keys;
}

void Reader::complain(const YAML::Node& node, const std::string& text) {
  found_.push_back({node.Mark().line + 1, text});
}

template <class T>
void Reader::section(const YAML::Node& node, T& value, const std::string& path) {
  if (node.IsNull()) return;  // "model:" with nothing below
  if (!node.IsMap())
    return complain(node, path.empty()
                              ? "a recipe is a list of `key: value`"
                              : fmt::format("{} must be a section of keys, but is {}", path, shown(node)));
  struct Entry {
    std::string key;
    YAML::Node key_node, value;
    bool known = false;
  };
  std::vector<Entry> entries;
  for (const auto& pair : node) {
    std::string key = pair.first.IsScalar() ? pair.first.Scalar() : shown(pair.first);
    bool again =
        std::any_of(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.key == key; });
    if (again)
      complain(pair.first, fmt::format("{} is given twice", join(path, key)));
    else
      entries.push_back({key, pair.first, pair.second});
  }
  visit_fields(value, [&](const Field& field, auto& member) {
    for (Entry& entry : entries)
      if (entry.key == field.key) {
        entry.known = true;
        given_.insert(join(path, field.key));
        read(field, entry.value, member, join(path, field.key));
      }
  });
  for (const Entry& entry : entries) {
    if (entry.known) continue;
    std::string full = join(path, entry.key);
    complain(entry.key_node,
             full + " is no key" + suggestion(nearest_key(without_indices(full), known_keys())));
  }
  clear_alternatives(value, path);
}

template <class T>
void Reader::clear_alternatives(T& value, const std::string& path) {
  std::set<std::string_view> decided;
  visit_fields(value, [&](const Field& field, auto&) {
    if (!field.one_of.empty() && given_.contains(join(path, field.key))) decided.insert(field.one_of);
  });
  visit_fields(value, [&](const Field& field, auto& member) {
    if (decided.contains(field.one_of) && !given_.contains(join(path, field.key))) member = {};
  });
}

template <class T>
void Reader::read(const Field& field, const YAML::Node& node, T& value, const std::string& path) {
  if constexpr (Section<T>) {
    section(node, value, path);
  } else if constexpr (requires { value.push_back({}); } && !std::same_as<T, std::string>) {
    read_list(field, node, value, path);
  } else if (!node.IsScalar() || !parse_text(field, node.Scalar(), value)) {
    complain(node, fmt::format("{} must be {}, but is {}", path, allowed(field, value), shown(node)));
  }
}

template <class T>
void Reader::read_list(const Field& field, const YAML::Node& node, std::vector<T>& value,
                       const std::string& path) {
  if constexpr (Section<T>)
    if (overriding_ && node.IsMap()) return elements(node, value, path);
  if (!node.IsSequence())
    return complain(node, fmt::format("{} must be a list, but is {}", path, shown(node)));
  std::vector<T> list;
  for (const YAML::Node& element : node) {
    list.emplace_back();
    read(field, element, list.back(), fmt::format("{}[{}]", path, list.size() - 1));
  }
  value = std::move(list);
}

template <class T>
void Reader::elements(const YAML::Node& node, std::vector<T>& value, const std::string& path) {
  for (const auto& pair : node) {
    const std::string& word = pair.first.Scalar();
    std::size_t index = 0;
    auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), index);
    if (error != std::errc() || end != word.data() + word.size() || index >= value.size())
      complain(node, fmt::format("{} has {} element(s), counted from 0, and none called {}", path,
                                 value.size(), word));
    else
      section(pair.second, value[index], fmt::format("{}[{}]", path, index));
  }
}

void Reader::document(const YAML::Node& root, const std::string& origin) {
  overriding_ = false;
  found_.clear();
  section(root, plan_, "");
  std::stable_sort(found_.begin(), found_.end(),
                   [](const Found& a, const Found& b) { return a.line < b.line; });
  for (const Found& found : found_)
    problems_.push_back(fmt::format("{}:{}: {}", origin, found.line, found.text));
}

void Reader::override_key(const std::string& assignment) {
  auto complain_here = [&](const std::string& text) {
    problems_.push_back(fmt::format("--set {}: {}", assignment, text));
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
  overriding_ = true;
  found_.clear();
  section(node, plan_, "");
  for (const Found& found : found_) complain_here(found.text);
}

}  // namespace taxon::plan
