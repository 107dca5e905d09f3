#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace taxon::checkpoint {

/// A tensor by its name in the model, whatever ranks, arenas and buckets held it.
struct LogicalTensor {
  std::string name;
  DType type = DType::Float32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;  // row-major, little-endian
  bool is_flags = false;         // of UInt8, and each 0 or 1: a file says so
};

}  // namespace taxon::checkpoint
