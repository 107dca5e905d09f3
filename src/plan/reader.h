#pragma once

#include <yaml-cpp/yaml.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "plan/fields.h"

namespace taxon::plan {

/// Dotted names of all keys and sections, in the order of fields.h.
const std::vector<std::string>& known_keys();

/// Lays YAML over a plan and collects what is wrong with it. One reader per source: the file is one, all
/// overrides together are another.
class Reader {
 public:
  explicit Reader(Plan& plan) : plan_(plan) {}

  /// A whole document. Problems read "origin:line: key ...", in the order of lines.
  void document(const YAML::Node& root, const std::string& origin);
  /// "key.path=value", where value is YAML. An element of a list is named by its index:
  /// exchange.levels.0.collective.
  void override_key(const std::string& assignment);

  const std::vector<std::string>& problems() const { return problems_; }

 private:
  struct Found {
    int line;
    std::string text;
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
  void complain(const YAML::Node& node, const std::string& text);

  Plan& plan_;
  bool overriding_ = false;
  std::set<std::string> given_;  // keys that this source has set
  std::vector<Found> found_;     // in the current document or override
  std::vector<std::string> problems_;
};

}  // namespace taxon::plan
