#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "data/storage.h"

namespace taxon::data {

/// A storage for a run that writes into one folder of the machine's file system for hours: once the folder
/// has been there, a write after it vanished or was replaced throws Error{Output} with its name, where the
/// storage behind would make it again and lose what was in it without a word. Any thread.
class HeldFolder final : public Storage {
 public:
  /// `storage` outlives it.
  HeldFolder(Storage& storage, std::string folder);

  std::vector<std::byte> read(const std::string& path) const override { return storage_.read(path); }
  std::vector<std::byte> read_range(const std::string& path, std::uint64_t offset,
                                    std::size_t size) const override {
    return storage_.read_range(path, offset, size);
  }
  std::uint64_t size(const std::string& path) const override { return storage_.size(path); }
  bool exists(const std::string& path) const override { return storage_.exists(path); }
  std::vector<std::string> list(const std::string& folder) const override { return storage_.list(folder); }
  void write_atomic(const std::string& path, ConstView bytes) override;
  void append(const std::string& path, ConstView bytes) override;
  void remove(const std::string& path) override { storage_.remove(path); }

 private:
  using Identity = std::pair<std::uint64_t, std::uint64_t>;  // device and inode
  std::optional<Identity> identity() const;
  bool is_inside(const std::string& path) const { return path.starts_with(folder_ + "/"); }
  void require_same(const std::string& path);
  void remember(const std::string& path);  // the first write may have made the folder

  Storage& storage_;
  const std::string folder_;
  std::mutex mutex_;
  std::optional<Identity> seen_;
};

}  // namespace taxon::data
