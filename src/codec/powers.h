#pragma once

#include <memory>

#include "codec/block_kernel.h"

namespace taxon::codec {

/// Eight bits: a sign and one of 127 neighbouring powers of two, up to the first that is not below the
/// block's largest magnitude (at most 2^127); or zero. To one of the two powers beside a value by chance,
/// without bias.
std::unique_ptr<const BlockKernel> powers_of_two(std::size_t block);

}  // namespace taxon::codec
