#pragma once

#include <cstdint>
#include <span>

#include "base/isa.h"

namespace taxon::codec {

/// What blocks of neighbouring values become: scales, and a code for each value.
struct BlockLayout {
  std::size_t block = 256;  // values that share scales: a multiple of 64
  std::size_t scales = 1;   // of a block
  int bits = 8;             // of a code: 1, 2, 4 or 8
  std::size_t blocks(std::size_t count) const { return (count + block - 1) / block; }
  /// Bytes of the codes of `count` values; blocks begin at whole bytes.
  std::size_t code_bytes(std::size_t count) const {
    return blocks(count) * block * static_cast<std::size_t>(bits) / 8;
  }
};

/// How blocks are encoded. Equal arguments give equal bits on every path.
class BlockKernel {
 public:
  explicit BlockKernel(BlockLayout layout) : layout_(layout) {}
  virtual ~BlockKernel() = default;
  const BlockLayout& layout() const { return layout_; }
  /// Operations of one value.
  virtual double encode_flops() const { return 6; }

  /// Writes scales and codes of all values, or of those before the first block that has one that is not
  /// finite, and returns how many these are. REQUIRES: scales.size() == layout().scales for each block; codes
  /// of layout().code_bytes(). With `keep_rest`, values := what codes lack. `key`: of chance.
  virtual std::size_t encode(std::span<float> values, std::span<float> scales, std::span<std::uint8_t> codes,
                             bool keep_rest, std::uint64_t key, Isa path) const = 0;
  /// values := or += what the codes stand for, whatever they are.
  virtual void decode(std::span<const float> scales, std::span<const std::uint8_t> codes, bool add,
                      std::span<float> values, Isa path) const = 0;

 private:
  const BlockLayout layout_;
};

}  // namespace taxon::codec
