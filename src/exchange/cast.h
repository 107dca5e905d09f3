#pragma once

#include "base/view.h"
#include "tensor/arena.h"

namespace taxon::exchange {

/// to[range] := from[range], rounded to the other's type. For bodies of kernels.
void cast_range(const tensor::Arena& from, const tensor::Arena& to, Range range);

}  // namespace taxon::exchange
