#include "model/frozen.h"

#include <fmt/format.h>

#include "base/error.h"

namespace taxon::model {
namespace {

bool matches(const std::string& name, const std::string& pattern) {
  if (!pattern.empty() && pattern.back() == '*')
    return name.starts_with(pattern.substr(0, pattern.size() - 1));
  return name == pattern;
}

}  // namespace

std::vector<bool> find_frozen(const std::string& model, const std::vector<std::string>& parameters,
                              const std::vector<std::string>& patterns) {
  std::vector<bool> frozen(parameters.size(), false);
  std::vector<std::string> unmatched;
  for (const std::string& pattern : patterns) {
    bool any = false;
    for (std::size_t p = 0; p < parameters.size(); ++p)
      if (matches(parameters[p], pattern)) frozen[p] = any = true;
    if (!any) unmatched.push_back(pattern);
  }
  if (!unmatched.empty())
    throw Error(ErrorKind::Usage,
                fmt::format("model.frozen: no parameter of {} is named {}; there are {}", model,
                            fmt::join(unmatched, ", "), fmt::join(parameters, ", ")));
  return frozen;
}

}  // namespace taxon::model
