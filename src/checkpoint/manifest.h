#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/error.h"
#include "base/view.h"

namespace taxon::checkpoint {

/// The newest format that this Taxon reads and the one that it writes.
constexpr int kFormatVersion = 1;

struct FileEntry {
  std::uint64_t bytes = 0;
  std::string hash;  // xxHash64, 16 hex digits
};

/// What is written last: a folder is a checkpoint if and only if it holds a valid manifest.
struct Manifest {
  std::string taxon_version;
  std::string model_hash;
  std::uint64_t seed = 0;
  int world_size = 0;
  std::int64_t steps = 0, samples = 0;
  std::map<std::string, FileEntry> files;  // by name in the folder
  bool finite = true;                      // all tensors; what older versions wrote counts as such
};

/// A checkpoint of a format that this Taxon does not know: whole, as far as one can say.
class NewerFormat : public Error {
 public:
  using Error::Error;
};

/// Throws Error{Checkpoint}: "PATH: WHAT".
[[noreturn]] void fail_checkpoint(const std::string& path, const std::string& what);

std::string write_manifest(const Manifest& manifest);
/// Throws Error{Checkpoint} that begins with `path`: cut short, damaged, with numbers that no run has, or
/// (NewerFormat) of a newer format.
Manifest read_manifest(ConstView text, const std::string& path);

FileEntry describe_file(ConstView bytes);

/// 16 hex digits of the xxHash64.
std::string hash_text(ConstView bytes);

}  // namespace taxon::checkpoint
