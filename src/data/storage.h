#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/view.h"

namespace taxon::data {

/// The door of files. Paths are the caller's. Any thread.
class Storage {
 public:
  virtual ~Storage() = default;
  /// Whole file. Throws Error{Data} naming the path and the reason.
  virtual std::vector<std::byte> read(const std::string& path) const = 0;
  /// `size` bytes from `offset`. Throws Error{Data} if the file is shorter.
  virtual std::vector<std::byte> read_range(const std::string& path, std::uint64_t offset,
                                            std::size_t size) const = 0;
  /// Of a file, in bytes. Throws Error{Data}.
  virtual std::uint64_t size(const std::string& path) const = 0;
  virtual bool exists(const std::string& path) const = 0;
  /// Names (not paths) in a folder, sorted; empty if there is no such folder.
  virtual std::vector<std::string> list(const std::string& folder) const = 0;
  /// All or nothing, also across a crash: writes beside it, fsyncs, renames, fsyncs the folder. Makes missing
  /// folders. Throws Error{Output}.
  virtual void write_atomic(const std::string& path, ConstView bytes) = 0;
  /// Adds to the end of a file, made if missing; for logs. Throws Error{Output}.
  virtual void append(const std::string& path, ConstView bytes) = 0;
  /// Removes a file or a whole folder; what is not there is no error.
  virtual void remove(const std::string& path) = 0;
};

/// The machine's file system.
class FileStorage final : public Storage {
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
};

}  // namespace taxon::data
