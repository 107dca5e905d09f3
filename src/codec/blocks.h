#pragma once

#include <memory>

#include "codec/block_kernel.h"

namespace taxon::codec {

/// Codes that count from minus to plus the block's largest magnitude in even steps.
struct Steps {
  int levels = 127;        // steps from 0 to the largest magnitude
  int bits = 8;            // of a code: 2, 4 or 8
  bool by_chance = false;  // codes are rounded by chance, without bias; otherwise to the nearest
};
std::unique_ptr<const BlockKernel> even_steps(std::size_t block, Steps steps);

}  // namespace taxon::codec
