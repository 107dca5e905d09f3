#pragma once

#include "plan/options.h"

namespace taxon::codec {

// Keys that several codecs have, each with the same meaning. A codec's struct of options has a visit_fields()
// beside it that names them, or keys of its own.

inline constexpr plan::Field kDensity{
    .key = "density", .sentence = "Share of the values that travel.", .min = 0, .max = 1, .above_min = true};
inline constexpr plan::Field kEntries{
    .key = "entries",
    .sentence = "Number of values of a bucket that travel, in place of density; 0: as density says.",
    .min = 0,
    .max = 1e9};
inline constexpr plan::Field kBits{.key = "bits", .sentence = "Of a value.", .choices = "2 4 8"};
inline constexpr plan::Field kScaleBlock{.key = "block",
                                         .sentence = "Neighbouring values that share a scale.",
                                         .min = 64,
                                         .max = 1 << 16,
                                         .multiple_of = 64};
inline constexpr plan::Field kChoiceBlock{
    .key = "block",
    .sentence = "Neighbouring values of which the largest travel, with one scale.",
    .min = 64,
    .max = 1 << 16,
    .multiple_of = 64};
inline constexpr plan::Field kSketchRows{
    .key = "rows", .sentence = "Of a sketch; odd, since estimates are medians.", .choices = "1 3 5 7"};
inline constexpr plan::Field kColumns{.key = "columns",
                                      .sentence = "Of a sketch's row, as a share of the values.",
                                      .min = 0,
                                      .max = 1,
                                      .above_min = true};
inline constexpr plan::Field kThreshold{
    .key = "threshold",
    .sentence =
        "The magnitude that travels, for values that reach it; in units of a worker's share of the mean "
        "gradient.",
    .min = 0,
    .max = 1e30,
    .above_min = true};

/// Codecs without keys of their own.
struct NoOptions {};
template <plan::Like<NoOptions> O, class V>
void visit_fields(O&, V&&) {}

/// Codecs of blocks that share a scale.
struct BlockOptions {
  int block = 256;
};
template <plan::Like<BlockOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(kScaleBlock, o.block);
}

}  // namespace taxon::codec
