#pragma once

#include "base/dtype.h"
#include "base/isa.h"
#include "base/view.h"

namespace taxon::tensor {

/// True if none of the values is infinite or not a number; integers always are finite. One pass over the
/// bits, at the speed of memory. For bodies of kernels.
bool all_finite(DType type, ConstView values, Isa path = best_isa());

}  // namespace taxon::tensor
