#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/storage.h"

namespace taxon::checkpoint {

/// The machine died.
struct Crash {};

/// Files in memory. After `lives` changes every further one throws Crash; removing a folder is a change per
/// file, as on a real disk.
class CrashingStorage final : public data::Storage {
 public:
  std::map<std::string, std::vector<std::byte>> files;
  int lives = -1;  // -1: immortal
  int changes = 0;

  std::vector<std::byte> read(const std::string& path) const override {
    auto found = files.find(path);
    if (found == files.end()) throw Error(ErrorKind::Data, path + ": no such file");
    return found->second;
  }
  std::vector<std::byte> read_range(const std::string& path, std::uint64_t offset,
                                    std::size_t size) const override {
    std::vector<std::byte> all = read(path);
    if (offset + size > all.size()) throw Error(ErrorKind::Data, path + ": is shorter");
    auto first = all.begin() + static_cast<std::ptrdiff_t>(offset);
    return {first, first + static_cast<std::ptrdiff_t>(size)};
  }
  std::uint64_t size(const std::string& path) const override { return read(path).size(); }
  bool exists(const std::string& path) const override { return files.contains(path) || !below(path).empty(); }
  std::vector<std::string> list(const std::string& folder) const override {
    std::set<std::string> names;
    for (const std::string& path : below(folder)) {
      std::string rest = path.substr(folder.size() + 1);
      names.insert(rest.substr(0, rest.find('/')));
    }
    return {names.begin(), names.end()};
  }
  void write_atomic(const std::string& path, ConstView bytes) override {
    live();
    files[path].assign(bytes.data(), bytes.data() + bytes.size());
  }
  void append(const std::string& path, ConstView bytes) override {
    live();
    files[path].insert(files[path].end(), bytes.data(), bytes.data() + bytes.size());
  }
  void remove(const std::string& path) override {
    std::vector<std::string> doomed = below(path);
    if (files.contains(path)) doomed.push_back(path);
    for (const std::string& file : doomed) {
      live();
      files.erase(file);
    }
  }

 private:
  void live() {
    if (lives >= 0 && changes >= lives) throw Crash();
    ++changes;
  }
  std::vector<std::string> below(const std::string& folder) const {
    std::vector<std::string> paths;
    for (const auto& [path, bytes] : files)
      if (path.starts_with(folder + "/")) paths.push_back(path);
    return paths;
  }
};

}  // namespace taxon::checkpoint
