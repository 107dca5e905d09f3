#include "plan/reader.h"

namespace taxon::plan {

const std::vector<std::string>& known_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> all;
    Plan plan;
    collect_keys(plan, "", all);
    return all;
  }();
  return keys;
}

void Reader::document(const YAML::Node& root, const std::string& origin) {
  reader_.document(root, plan_, origin);
}

void Reader::override_key(const std::string& assignment) { reader_.override_key(plan_, assignment); }

}  // namespace taxon::plan
