#include "comm/tensors/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"

namespace taxon::comm {

TensorShape TensorShape::of(DType type, const std::vector<std::int64_t>& extents) {
  TensorShape shape{.type = type, .rank = static_cast<std::uint32_t>(extents.size())};
  std::copy_n(extents.begin(), std::min(extents.size(), kMostExtents), shape.extents.begin());
  if (extents.size() > kMostExtents || !shape.checked_bytes())
    throw Error(ErrorKind::Mismatch,
                fmt::format("a tensor of the extents [{}] can't be sent: at most {} extents, none negative",
                            fmt::join(extents, ", "), kMostExtents));
  return shape;
}

std::optional<std::size_t> TensorShape::checked_bytes() const {
  if (rank > kMostExtents || static_cast<std::size_t>(type) > static_cast<std::size_t>(DType::UInt8))
    return {};
  std::int64_t bytes = static_cast<std::int64_t>(size_of(type));
  for (std::uint32_t i = 0; i < rank; ++i)
    if (extents[i] < 0 || __builtin_mul_overflow(bytes, extents[i], &bytes)) return {};
  return static_cast<std::size_t>(bytes);
}

std::size_t TensorShape::bytes() const {
  const auto bytes = checked_bytes();
  TAXON_CHECK(bytes, "rank=", rank);
  return *bytes;
}

std::string TensorShape::describe() const {
  return fmt::format("{}[{}]", to_string(type), fmt::join(extents.begin(), extents.begin() + rank, ", "));
}

}  // namespace taxon::comm
