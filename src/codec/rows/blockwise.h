#pragma once

#include <memory>

#include "codec/block_kernel.h"
#include "codec/codec.h"

namespace taxon::codec {

/// What differs between codecs of blocks, beside the kernel.
struct BlockwiseTraits {
  std::uint32_t letters = 0;
  Algebra algebra = Algebra::Divisible;
  bool keeps_zeros = true;
};

/// The codec whose wire is all blocks' codes, and then their scales.
std::unique_ptr<Codec> make_blockwise(std::unique_ptr<const BlockKernel> kernel, BlockwiseTraits traits);

}  // namespace taxon::codec
