#pragma once

#include <span>

#include "base/view.h"

namespace taxon::comm {

// Sums of flat ranges, element by element in the order of the sources: the same bits for the same sources on
// every machine. float32 and float64 add in their own type; bfloat16 accumulates in float32 and is rounded
// once, at the end. Vectorised for what the machine offers (AVX-512, AVX2, or the base of the architecture).
// Any thread. REQUIRES: a floating type; real views of equal size, each aligned for its type.

/// target := sources[0] + sources[1] + ... ; `target` may be one of the sources, otherwise it overlaps none.
void sum_into(DType type, View target, std::span<const ConstView> sources);

/// Every member := members[0] + members[1] + ... , in one pass over all of them.
void sum_everywhere(DType type, std::span<const View> members);

/// target := source, bit by bit, of any type. They overlap nowhere.
void copy_into(View target, ConstView source);

}  // namespace taxon::comm
