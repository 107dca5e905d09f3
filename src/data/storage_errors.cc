#include "data/storage_errors.h"

#include <fmt/format.h>

#include "base/error.h"

namespace taxon::data {

void fail_read(const std::string& path, const std::string& reason) {
  throw Error(ErrorKind::Data, fmt::format("{}: cannot be read: {}", path, reason), {{}, "read", path});
}

void fail_write(const std::string& path, const std::string& reason) {
  throw Error(ErrorKind::Output, fmt::format("{}: cannot be written: {}", path, reason), {{}, "write", path});
}

void fail_contents(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::Data, fmt::format("{}: {}", path, why), {{}, "read", path});
}

}  // namespace taxon::data
