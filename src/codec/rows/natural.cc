#include <cmath>

#include "codec/option_fields.h"
#include "codec/powers.h"
#include "codec/rows/blockwise.h"
#include "codec/wire.h"

namespace taxon::codec {

/// Horvath et al., "Natural compression for distributed deep learning", MSML 2022: to a power of two beside
/// the value by chance, without bias. Exponents count from the block's largest, which saves their ninth bit.
CodecRow natural() {
  return codec_row<BlockOptions>(
      {.name = "natural",
       .sentence = "8 bits: a sign and a power of two, by chance",
       .bytes = "d (1 + 4 / block)",
       .source = "Horváth et al., MSML 2022",
       .step = [](float value, float) { return std::exp2(std::floor(std::log2(std::abs(value)))); }},
      [](const BlockOptions& o) {
        return make_blockwise(powers_of_two(static_cast<std::size_t>(o.block)), {.letters = letters("natu")});
      });
}

}  // namespace taxon::codec
