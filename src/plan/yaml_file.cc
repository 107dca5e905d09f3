#include "plan/yaml_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace taxon::plan {
namespace {

[[noreturn]] void unreadable(const std::string& path, int error) {
  throw Error(ErrorKind::Usage, fmt::format("{}: cannot be read: {}", path, std::strerror(error)));
}

}  // namespace

std::string read_text(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) unreadable(path, errno);
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad() || (text.fail() && errno != 0)) unreadable(path, errno);  // a folder opens but can't be read
  return text.str();
}

void read_document(const std::string& yaml, const std::string& origin, std::vector<std::string>& problems,
                   const std::function<void(const YAML::Node&)>& read) {
  try {
    auto documents = YAML::LoadAll(yaml);
    if (documents.size() > 1)
      problems.push_back(
          fmt::format("{}: holds {} YAML documents; it must be one", origin, documents.size()));
    if (!documents.empty()) read(documents.front());
  } catch (const YAML::Exception& error) {
    problems.push_back(fmt::format("{}:{}: is no YAML: {}", origin, error.mark.line + 1, error.msg));
  }
}

}  // namespace taxon::plan
