#include "plan/yaml_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

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
  std::string text(kMostBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (file.gcount() == 0 && errno != 0))
    unreadable(path, errno);  // a folder opens but can't be read
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMostBytes)
    throw Error(ErrorKind::Usage,
                fmt::format("{}: is larger than {} bytes, which is no file of this kind", path, kMostBytes));
  return text;
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
