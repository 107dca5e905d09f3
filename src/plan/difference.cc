#include "plan/difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "plan/fields.h"
#include "plan/text.h"

namespace taxon::plan {
namespace {

struct Entry {
  std::string key, text, alternatives;
};

template <class T>
void flatten(const T& section, const std::string& prefix, std::vector<Entry>& entries) {
  visit_fields(section, [&](const Field& field, const auto& member) {
    using M = std::remove_cvref_t<decltype(member)>;
    const std::string key = prefix + std::string(field.key);
    const std::string alternatives = field.one_of.empty() ? "" : prefix + std::string(field.one_of);
    if constexpr (Section<M>) {
      flatten(member, key + ".", entries);
    } else if constexpr (requires { to_text(field, member); }) {
      entries.push_back({key, to_text(field, member), alternatives});
    } else {
      for (std::size_t i = 0; i < member.size(); ++i)
        flatten(member[i], fmt::format("{}[{}].", key, i), entries);
    }
  });
  if constexpr (HasOptions<T>)
    for (const auto& [key, text] : section.options.given()) entries.push_back({prefix + key, text, ""});
}

std::vector<Entry> entries_of(Plan plan) {
  plan.resolved = {};
  std::vector<Entry> entries;
  flatten(plan, "", entries);
  return entries;
}

/// As overrides name it: "exchange.levels.0.topology".
std::string path_of(std::string key) {
  std::erase(key, ']');
  std::replace(key.begin(), key.end(), '[', '.');
  return key;
}

}  // namespace

std::string describe(const Difference& difference) {
  auto shown = [](const std::string& text) { return text.empty() ? "not there" : text; };
  return fmt::format("{} was {} and is {}", difference.key, shown(difference.before), shown(difference.now));
}

std::vector<Difference> differences(const Plan& before, const Plan& now) {
  std::map<std::string, std::string> was, is;
  const std::vector<Entry> old_entries = entries_of(before), new_entries = entries_of(now);
  for (const Entry& entry : old_entries) was[entry.key] = entry.text;
  for (const Entry& entry : new_entries) is[entry.key] = entry.text;
  std::vector<Difference> all;
  for (const Entry& entry : new_entries)
    if (const auto old = was.find(entry.key); old == was.end() || old->second != entry.text)
      all.push_back({entry.key, old == was.end() ? "" : old->second, entry.text, entry.alternatives});
  for (const Entry& entry : old_entries)
    if (!is.contains(entry.key)) all.push_back({entry.key, entry.text, "", entry.alternatives});
  return all;
}

std::vector<Difference> not_given(std::vector<Difference> differences,
                                  const std::vector<std::string>& assignments) {
  auto is_given = [&](const Difference& difference) {
    const std::string path = path_of(difference.key);
    return std::any_of(assignments.begin(), assignments.end(), [&](const std::string& assignment) {
      const std::string given = assignment.substr(0, assignment.find('='));
      return path == given || path.starts_with(given + ".");
    });
  };
  std::vector<std::string> alternatives;  // that one of is given
  for (const Difference& difference : differences)
    if (!difference.alternatives.empty() && is_given(difference))
      alternatives.push_back(difference.alternatives);
  std::erase_if(differences, [&](const Difference& difference) {
    return is_given(difference) ||
           std::find(alternatives.begin(), alternatives.end(), difference.alternatives) != alternatives.end();
  });
  return differences;
}

}  // namespace taxon::plan
