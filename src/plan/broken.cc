#include "plan/broken.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/nearest.h"

namespace taxon::plan {

Violation unless(bool holds, std::string instead) {
  return holds ? Violation() : Violation(std::move(instead));
}

Violation known_name(const std::string& name, std::vector<std::string> known, std::string_view also) {
  if (known.empty()) return {};
  if (!also.empty()) known.insert(known.begin(), std::string(also));
  if (std::find(known.begin(), known.end(), name) != known.end()) return {};
  auto near = nearest(name, known);
  if (near) return fmt::format("it is \"{}\"{}", name, suggestion(near));
  return fmt::format("it is \"{}\"; known are {}", name, fmt::join(known, ", "));
}

}  // namespace taxon::plan
