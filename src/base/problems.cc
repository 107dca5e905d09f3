#include "base/problems.h"

#include <fmt/format.h>

#include <sstream>

#include "base/error.h"

namespace taxon {

bool Problems::collect(const std::function<void()>& read, const std::string& where) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Usage) throw;
    if (where.empty()) {
      add(error.what());
      return false;
    }
    std::istringstream lines(error.what());
    for (std::string line; std::getline(lines, line);) add(fmt::format("{}: {}", where, line));
    return false;
  }
}

void Problems::require_none() const {
  if (!list_.empty()) throw Error(ErrorKind::Usage, fmt::format("{}", fmt::join(list_, "\n")));
}

}  // namespace taxon
