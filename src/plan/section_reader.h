#pragma once

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "plan/fields.h"
#include "plan/nearest.h"
#include "plan/options.h"
#include "plan/text.h"

namespace taxon::plan {

/// Dotted names of all keys and sections below a section, in the order of its fields.
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

/// An option's text: of a value, or of a list of values as to_text() has it. Nothing else is an option.
std::optional<std::string> option_text(const YAML::Node& node);

/// Lays YAML over a section of keys (a plan, a cluster) and collects what is wrong with it. One reader per
/// source: a file is one, all overrides together are another. `known_keys` serves suggestions and outlives
/// the reader.
class SectionReader {
 public:
  /// `what` names the document in messages: "a recipe".
  SectionReader(const std::vector<std::string>& known_keys, std::string what)
      : known_keys_(known_keys), what_(std::move(what)) {}

  /// A whole document. Problems read "origin:line: key ...", in the order of lines.
  template <class Root>
  void document(const YAML::Node& root, Root& value, const std::string& origin);
  /// "key.path=value", where value is YAML. An element of a list is named by its index:
  /// exchange.levels.0.collective.
  template <class Root>
  void override_key(Root& value, const std::string& assignment);

  /// In the order of lines, or of overrides.
  std::vector<std::string> problems() const;

  /// A row's keys in the section at `path` ("exchange.levels[0].codec"), once this source has been read: each
  /// must be one of `known`, and what that allows. Of the others, those that this source gave are refused in
  /// the words of `refusal` (none: passed over), and all are left out.
  void settle_options(Options& options, const std::string& path, const std::vector<OptionKey>& known,
                      const std::function<std::optional<std::string>(const std::string& key,
                                                                     const std::string& text)>& refusal);

 private:
  /// Where something stands: the line of a document, or which override it is.
  struct Source {
    int order = 0;
    std::string words;
  };
  struct Found {
    Source source;
    std::string text;
  };
  struct GivenOption {
    std::string path, key;
    Source source;
  };
  template <class T>
  void section(const YAML::Node& node, T& value, const std::string& path);
  template <class T>
  void clear_alternatives(T& value, const std::string& path);
  template <class T>
  void read(const Field& field, const YAML::Node& node, T& value, const std::string& path);
  template <class T>
  void read_list(const Field& field, const YAML::Node& node, std::vector<T>& value, const std::string& path);
  template <class T>
  void elements(const YAML::Node& node, std::vector<T>& value, const std::string& path);
  Source source_of(const YAML::Node& node) const {
    if (overrides_ > 0) return {overrides_, origin_};
    const int line = node.Mark().line + 1;
    return {line, fmt::format("{}:{}", origin_, line)};
  }
  void complain(const YAML::Node& node, const std::string& text) {
    found_.push_back({source_of(node), text});
  }
  static std::string without_indices(const std::string& path);
  /// The section that a word stands for, which has the word's line.
  static YAML::Node spelled_out(const Field& field, const YAML::Node& word);
  static std::string shown(const YAML::Node& node);
  static std::string join(const std::string& path, std::string_view key) {
    return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
  }
  /// The assignment as nested sections. Empty when it makes none; what is wrong is among the problems.
  YAML::Node nested(const std::string& assignment);

  const std::vector<std::string>& known_keys_;
  std::string what_;
  std::string origin_;           // of what is being read
  int overrides_ = 0;            // so far; 0: it is a document
  std::set<std::string> given_;  // keys that this source has set
  std::vector<GivenOption> given_options_;
  std::vector<Found> found_;
};

template <class T>
void SectionReader::section(const YAML::Node& node, T& value, const std::string& path) {
  if (node.IsNull()) return;  // "model:" with nothing below
  if (!node.IsMap())
    return complain(node, path.empty()
                              ? what_ + " is a list of `key: value`"
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
    if constexpr (HasOptions<T>)
      if (const auto text = option_text(entry.value)) {
        value.options.set(entry.key, *text);
        given_options_.push_back({path, entry.key, source_of(entry.key_node)});
        continue;
      }
    std::string full = join(path, entry.key);
    complain(entry.key_node,
             full + " is no key" + suggestion(nearest_key(without_indices(full), known_keys_)));
  }
  clear_alternatives(value, path);
}

template <class T>
void SectionReader::clear_alternatives(T& value, const std::string& path) {
  std::set<std::string_view> decided;
  visit_fields(value, [&](const Field& field, auto&) {
    if (!field.one_of.empty() && given_.contains(join(path, field.key))) decided.insert(field.one_of);
  });
  visit_fields(value, [&](const Field& field, auto& member) {
    if (decided.contains(field.one_of) && !given_.contains(join(path, field.key))) member = {};
  });
}

template <class T>
void SectionReader::read(const Field& field, const YAML::Node& node, T& value, const std::string& path) {
  if constexpr (Section<T>) {
    if (field.word.empty())
      section(node, value, path);
    else if (node.IsSequence())
      complain(node, fmt::format("{} must be a word or a section of keys, but is {}", path, shown(node)));
    else
      section(node.IsScalar() ? spelled_out(field, node) : node, value, path);
  } else if constexpr (requires { value.push_back({}); } && !std::same_as<T, std::string>) {
    read_list(field, node, value, path);
  } else if (!node.IsScalar() || !parse_text(field, node.Scalar(), value)) {
    complain(node, fmt::format("{} must be {}, but is {}", path, allowed(field, value), shown(node)));
  }
}

template <class T>
void SectionReader::read_list(const Field& field, const YAML::Node& node, std::vector<T>& value,
                              const std::string& path) {
  if constexpr (Section<T>)
    if (overrides_ > 0 && node.IsMap()) return elements(node, value, path);
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
void SectionReader::elements(const YAML::Node& node, std::vector<T>& value, const std::string& path) {
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

template <class Root>
void SectionReader::document(const YAML::Node& root, Root& value, const std::string& origin) {
  origin_ = origin;
  section(root, value, "");
}

template <class Root>
void SectionReader::override_key(Root& value, const std::string& assignment) {
  origin_ = "--set " + assignment;
  ++overrides_;
  if (const YAML::Node node = nested(assignment); node.IsMap()) section(node, value, "");
}

}  // namespace taxon::plan
