#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "plan/field.h"

namespace taxon::model {

/// Of published networks: their layers' widths and what training drops.
struct WidthOptions {
  double width_multiplier = 1;
  double dropout = 0;
  /// Channels, or features, of a hidden layer that was published with so many.
  std::int64_t of(std::int64_t published) const {
    const double scaled = std::round(static_cast<double>(published) * width_multiplier);
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(scaled));
  }
};
template <plan::Like<WidthOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(plan::Field{.key = "width_multiplier",
                    .sentence = "Channels and features of hidden layers, in those that were published "
                                "(Howard et al., arXiv 1704.04861).",
                    .min = 0,
                    .max = 16,
                    .above_min = true},
        o.width_multiplier);
  visit(plan::Field{.key = "dropout",
                    .sentence = "Of what hidden fully connected layers take; published with 0.5.",
                    .min = 0,
                    .max = 1,
                    .below_max = true},
        o.dropout);
}

}  // namespace taxon::model
