#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace taxon::comm {

/// Element type and extents of a dense tensor: a plain value that is sent as it is. No extents: one element.
struct TensorShape {
  static constexpr std::size_t kMostExtents = 8;

  DType type = DType::Float32;
  std::uint32_t rank = 0;  // number of extents
  std::array<std::int64_t, kMostExtents> extents{};

  /// Throws Error{Mismatch} for more than kMostExtents extents, for negative ones, and when the bytes don't
  /// fit into 63 bits.
  static TensorShape of(DType type, const std::vector<std::int64_t>& extents);

  /// REQUIRES: valid.
  std::size_t bytes() const;
  /// Nothing if it is no shape that of() would make: it came from a peer.
  std::optional<std::size_t> checked_bytes() const;
  /// "float32[128, 3, 7]".
  std::string describe() const;

  friend bool operator==(const TensorShape&, const TensorShape&) = default;
};

}  // namespace taxon::comm
