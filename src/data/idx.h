#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/view.h"

namespace taxon::data {

/// An IDX file of unsigned bytes (http://yann.lecun.com/exdb/mnist): two zero bytes, the element type, the
/// number of extents, the extents as big-endian words, the elements.
struct IdxFile {
  std::vector<std::int64_t> extents;
  std::vector<std::byte> bytes;  // the whole file, so that nothing is copied
  std::size_t header = 0;        // size of what comes before the elements
  std::span<const std::byte> elements() const { return std::span(bytes).subspan(header); }
};

/// Throws Error{Data} naming `path` unless `bytes` are an IDX file of unsigned bytes with `dimensions`
/// non-empty extents and exactly as many elements as they say. Gzipped bytes are unpacked first.
IdxFile parse_idx(std::vector<std::byte> bytes, int dimensions, const std::string& path);

}  // namespace taxon::data
