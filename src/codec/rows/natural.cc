#include "codec/powers.h"
#include "codec/rows/blockwise.h"
#include "codec/rows/rows.h"
#include "codec/wire.h"

namespace taxon::codec {

/// Horvath et al., "Natural compression for distributed deep learning", MSML 2022: to a power of two beside
/// the value by chance, without bias. Exponents count from the block's largest, which saves their ninth bit.
CodecRow natural() {
  return {"natural",
          [](const plan::CodecPlan& plan) {
            return make_blockwise(powers_of_two(static_cast<std::size_t>(plan.block)),
                                  {.letters = letters("natu")});
          },
          false, false};
}

}  // namespace taxon::codec
