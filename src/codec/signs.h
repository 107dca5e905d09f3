#pragma once

#include <memory>

#include "codec/block_kernel.h"

namespace taxon::codec {

/// What a sign stands for: one; the block's mean magnitude; or the means of its negative and of its other
/// values. The number is that of the block's scales.
enum class Sign { One = 0, MeanMagnitude = 1, TwoMeans = 2 };

/// One bit for each value. Zero has a sign too: where a sign is worth one, zeros draw it by chance, so that
/// ties of a vote decide nothing in the mean; elsewhere the memory of errors takes it back.
std::unique_ptr<const BlockKernel> signs(std::size_t block, Sign sign);

}  // namespace taxon::codec
