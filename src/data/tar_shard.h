#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/fault_log.h"
#include "data/storage.h"

namespace taxon::data {

/// A file in a tar archive: its name, and which bytes of the archive hold it with its header.
struct TarEntry {
  std::string name;
  std::uint64_t begin = 0, end = 0;
};

/// The regular files in an archive, or in several that are joined, in their order; their contents are passed
/// over. An archive that is cut short goes to the log of faults, and what comes before that place is listed.
/// Throws Error{Data} naming `path` if it is no tar archive, or a compressed one, in which nothing can be
/// found without reading all.
std::vector<TarEntry> list_tar(const Storage& storage, const std::string& path, FaultLog& faults);

/// The content of a file of the archive: all, or its first bytes. Throws Error{Data}.
std::vector<std::byte> read_tar(const Storage& storage, const std::string& path, const TarEntry& entry,
                                std::size_t most);

}  // namespace taxon::data
