#include "apps/taxon/commands/own_options.h"

namespace taxon::app {

plan::Options parse_own_options(const std::vector<std::string>& words, const std::string& option,
                                Problems& problems) {
  plan::Options options;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0)
      problems.add(fmt::format("{} must be KEY=VALUE, but is \"{}\"", option, word));
    else
      options.set(word.substr(0, equals), word.substr(equals + 1));
  }
  return options;
}

std::vector<std::string> names_of(const std::vector<plan::OptionKey>& keys) {
  std::vector<std::string> names;
  for (const plan::OptionKey& key : keys) names.emplace_back(key.key);
  return names;
}

}  // namespace taxon::app
