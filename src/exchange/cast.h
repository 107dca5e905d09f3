#pragma once

#include "base/view.h"
#include "tensor/arena.h"

namespace taxon::exchange {

/// As many elements of `to` from `begin` on := from[range], rounded to the other's type. For bodies of
/// kernels.
void cast_range(const tensor::Arena& from, Range range, const tensor::Arena& to, std::size_t begin);
/// In the same place.
inline void cast_range(const tensor::Arena& from, const tensor::Arena& to, Range range) {
  cast_range(from, range, to, range.begin);
}

}  // namespace taxon::exchange
