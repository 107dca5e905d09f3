#include "codec/fixed.h"
#include "codec/rows/blockwise.h"
#include "codec/rows/rows.h"
#include "codec/wire.h"

namespace taxon::codec {

/// The 2-bit compression of MXNet's kvstore (Chen et al., arXiv 1512.01274, and its documentation): minus,
/// nothing or plus a fixed threshold. Sums are not encoded again, as there: n members' have 2 n + 1 values.
CodecRow two_bit() {
  return {"two_bit",
          [](const plan::CodecPlan& plan) {
            return make_blockwise(fixed_threshold(static_cast<float>(plan.threshold)),
                                  {.letters = letters("2bit"), .algebra = Algebra::Opaque});
          },
          true, false};
}

}  // namespace taxon::codec
