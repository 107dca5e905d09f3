#pragma once

#include <string>
#include <vector>

#include "plan/catalogue.h"
#include "plan/section_reader.h"

namespace taxon::plan {

/// Dotted names of all keys and sections of a plan, in the order of fields.h.
const std::vector<std::string>& known_keys();

/// Lays YAML over a plan and collects what is wrong with it. One reader per source: the file is one, all
/// overrides together are another.
class Reader {
 public:
  explicit Reader(Plan& plan) : plan_(plan), reader_(known_keys(), "a recipe") {}

  /// See SectionReader.
  void document(const YAML::Node& root, const std::string& origin);
  void override_key(const std::string& assignment);
  /// After all of this source: checks the keys that are rows' own.
  void settle(const Catalogue& catalogue);
  std::vector<std::string> problems() const { return reader_.problems(); }

 private:
  Plan& plan_;
  SectionReader reader_;
};

}  // namespace taxon::plan
