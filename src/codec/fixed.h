#pragma once

#include <memory>

#include "codec/block_kernel.h"

namespace taxon::codec {

/// Two bits: values of at least `threshold` are plus, values of at most minus that are minus the threshold;
/// others are nothing. No scales.
std::unique_ptr<const BlockKernel> fixed_threshold(float threshold);

}  // namespace taxon::codec
