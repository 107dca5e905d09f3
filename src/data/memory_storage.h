#pragma once

#include <limits>
#include <map>
#include <mutex>

#include "data/storage.h"

namespace taxon::data {

/// What a MemoryStorage does wrong from now on.
struct StorageFaults {
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
  std::size_t read_limit = kNever;   // files seem to end after so many bytes
  std::size_t write_limit = kNever;  // so many more bytes can be written, then the device is full
  bool read_only = false;
};

/// Files in memory: the virtual world's door of files, and the tests'. Behaves like FileStorage, with the
/// same errors.
class MemoryStorage final : public Storage {
 public:
  std::vector<std::byte> read(const std::string& path) const override;
  std::vector<std::byte> read_range(const std::string& path, std::uint64_t offset,
                                    std::size_t size) const override;
  std::uint64_t size(const std::string& path) const override;
  bool exists(const std::string& path) const override;
  std::vector<std::string> list(const std::string& folder) const override;
  void write_atomic(const std::string& path, ConstView bytes) override;
  void append(const std::string& path, ConstView bytes) override;
  void remove(const std::string& path) override;

  void set_faults(const StorageFaults& faults);

 private:
  std::vector<std::byte>& writable(const std::string& path);
  std::span<const std::byte> readable(const std::string& path) const;
  std::size_t take(std::size_t wanted);

  mutable std::mutex mutex_;
  std::map<std::string, std::vector<std::byte>> files_;  // protected by mutex_, as is
  StorageFaults faults_;                                 // this
};

}  // namespace taxon::data
