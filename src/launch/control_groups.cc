#include "launch/control_groups.h"

#include <fstream>

namespace taxon::launch {
namespace {

bool names(const std::string& controllers, const std::string& controller) {
  return ("," + controllers + ",").find("," + controller + ",") != std::string::npos;
}

}  // namespace

std::vector<std::string> ControlGroups::folders(const std::string& controller) const {
  std::vector<std::string> found;
  std::ifstream groups(membership);
  for (std::string line; std::getline(groups, line);) {  // number:controllers:path
    auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (!controllers.empty() && !names(controllers, controller)) continue;
    // Version 2 has one hierarchy at the root; version 1 one folder for each set of controllers.
    std::string base = controllers.empty() ? root : root + "/" + controllers;
    for (;; path.resize(path.find_last_of('/'))) {
      // A container may see its own group as the root of the hierarchy, whatever the path says.
      found.push_back(base + path);
      if (path.empty()) break;
    }
  }
  return found;
}

}  // namespace taxon::launch
