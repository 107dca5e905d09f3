#include <cmath>

#include "codec/fixed.h"
#include "codec/option_fields.h"
#include "codec/rows/blockwise.h"
#include "codec/wire.h"

namespace taxon::codec {
namespace {

struct TwoBitOptions {
  double threshold = 0.001;
};
template <plan::Like<TwoBitOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(kThreshold, o.threshold);
}

}  // namespace

/// The 2-bit compression of MXNet's kvstore (Chen et al., arXiv 1512.01274, and its documentation): minus,
/// nothing or plus a fixed threshold. Sums are not encoded again, as there: n members' have 2 n + 1 values.
CodecRow two_bit() {
  return codec_row<TwoBitOptions>({.name = "two_bit",
                                   .sentence = "minus, nothing or plus `threshold`",
                                   .bytes = "d / 4",
                                   .source = "MXNet's gradient compression",
                                   .biased = true,
                                   .largest_error = [](float value, float) { return std::abs(value); }},
                                  [](const TwoBitOptions& o) {
                                    return make_blockwise(
                                        fixed_threshold(static_cast<float>(o.threshold)),
                                        {.letters = letters("2bit"), .algebra = Algebra::Opaque});
                                  });
}

}  // namespace taxon::codec
