#include "data/held_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include "base/error.h"

namespace taxon::data {

HeldFolder::HeldFolder(Storage& storage, std::string folder)
    : storage_(storage), folder_(std::move(folder)), seen_(identity()) {}

std::optional<HeldFolder::Identity> HeldFolder::identity() const {
  struct stat info {};
  if (::stat(folder_.c_str(), &info) != 0) return {};
  return Identity(info.st_dev, info.st_ino);
}

void HeldFolder::require_same(const std::string& path) {
  if (!is_inside(path)) return;
  std::lock_guard lock(mutex_);
  const auto now = identity();
  if (seen_ && now != seen_)
    throw Error(ErrorKind::Output,
                fmt::format("{}: the output folder has {} while the run wrote to it", folder_,
                            now ? "been replaced" : "vanished"),
                {{}, "write", folder_});
}

void HeldFolder::remember(const std::string& path) {
  if (!is_inside(path)) return;
  std::lock_guard lock(mutex_);
  if (!seen_) seen_ = identity();
}

void HeldFolder::write_atomic(const std::string& path, ConstView bytes) {
  require_same(path);
  storage_.write_atomic(path, bytes);
  remember(path);
}

void HeldFolder::append(const std::string& path, ConstView bytes) {
  require_same(path);
  storage_.append(path, bytes);
  remember(path);
}

}  // namespace taxon::data
