#include "data/memory_storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "data/storage_errors.h"

namespace taxon::data {
namespace {

std::string normal(const std::string& path) {
  std::string text = std::filesystem::path(path).lexically_normal().string();
  if (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

}  // namespace

std::span<const std::byte> MemoryStorage::readable(const std::string& path) const {
  auto file = files_.find(normal(path));
  if (file == files_.end()) fail_read(path, "No such file or directory");
  return std::span(file->second).first(std::min(faults_.read_limit, file->second.size()));
}

std::vector<std::byte> MemoryStorage::read(const std::string& path) const {
  std::lock_guard lock(mutex_);
  auto bytes = readable(path);
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> MemoryStorage::read_range(const std::string& path, std::uint64_t offset,
                                                 std::size_t size) const {
  std::lock_guard lock(mutex_);
  auto bytes = readable(path);
  if (offset > bytes.size() || size > bytes.size() - offset)
    fail_read(path, fmt::format("it is cut short: bytes {} to {} are wanted, it ends at {}", offset,
                                offset + size, bytes.size()));
  auto range = bytes.subspan(offset, size);
  return {range.begin(), range.end()};
}

std::uint64_t MemoryStorage::size(const std::string& path) const {
  std::lock_guard lock(mutex_);
  return readable(path).size();
}

bool MemoryStorage::exists(const std::string& path) const {
  std::lock_guard lock(mutex_);
  std::string name = normal(path);
  if (files_.contains(name)) return true;
  auto below = files_.lower_bound(name + "/");
  return below != files_.end() && below->first.starts_with(name + "/");
}

std::vector<std::string> MemoryStorage::list(const std::string& folder) const {
  std::lock_guard lock(mutex_);
  std::string prefix = normal(folder);
  if (!prefix.ends_with('/')) prefix += '/';
  std::set<std::string> names;
  for (auto it = files_.lower_bound(prefix); it != files_.end() && it->first.starts_with(prefix); ++it)
    names.insert(it->first.substr(prefix.size(), it->first.find('/', prefix.size()) - prefix.size()));
  return {names.begin(), names.end()};
}

std::vector<std::byte>& MemoryStorage::writable(const std::string& path) {
  if (faults_.read_only) fail_write(path, "Read-only file system");
  return files_[normal(path)];
}

std::size_t MemoryStorage::take(std::size_t wanted) {
  std::size_t granted = std::min(wanted, faults_.write_limit);
  if (faults_.write_limit != StorageFaults::kNever) faults_.write_limit -= granted;
  return granted;
}

void MemoryStorage::write_atomic(const std::string& path, ConstView bytes) {
  std::lock_guard lock(mutex_);
  if (faults_.read_only) fail_write(path, "Read-only file system");
  if (take(bytes.size()) < bytes.size()) fail_write(path, "No space left on device");
  writable(path).assign(bytes.data(), bytes.data() + bytes.size());
}

void MemoryStorage::append(const std::string& path, ConstView bytes) {
  std::lock_guard lock(mutex_);
  auto& file = writable(path);
  std::size_t granted = take(bytes.size());
  file.insert(file.end(), bytes.data(), bytes.data() + granted);  // like a disk, it keeps what fitted
  if (granted < bytes.size()) fail_write(path, "No space left on device");
}

void MemoryStorage::remove(const std::string& path) {
  std::lock_guard lock(mutex_);
  if (faults_.read_only) fail_write(path, "Read-only file system");
  std::string name = normal(path);
  files_.erase(name);
  auto below = files_.lower_bound(name + "/");
  while (below != files_.end() && below->first.starts_with(name + "/")) below = files_.erase(below);
}

void MemoryStorage::set_faults(const StorageFaults& faults) {
  std::lock_guard lock(mutex_);
  faults_ = faults;
}

}  // namespace taxon::data
