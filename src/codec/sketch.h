#pragma once

#include <cstdint>
#include <span>

#include "base/isa.h"
#include "base/view.h"

namespace taxon::codec {

/// A Count-Sketch (Charikar, Chen and Farach-Colton, ICALP 2002) of `rows` rows of `columns` buckets, whose
/// hashes are computed from a key: every value is added, with a random sign, to one bucket of every row.
/// Linear: the sketch of a sum is the sum of the sketches.
///
/// Sixteen neighbours go to sixteen neighbouring buckets, at a random place and in an order that is the
/// places' exclusive or with a random number: two values meet in a bucket as rarely as with hashes of their
/// own, and neighbours never do. So estimates are as good (unbiased, of variance |x|^2 / columns in each
/// row), and values move through registers.
struct SketchShape {
  static constexpr std::size_t kLanes = 16;
  int rows = 5;              // odd: estimates are medians
  std::size_t columns = 16;  // a multiple of kLanes
  std::size_t size() const { return static_cast<std::size_t>(rows) * columns; }
};

/// Of rows of at least so many columns.
SketchShape sketch_of(int rows, std::size_t columns);
/// Of sketches of `count` values whose rows have so large a `share` of them in columns.
SketchShape sketch_shape(int rows, double share, std::size_t count);
/// table := the sketch of `values`. REQUIRES: table.size() == shape.size().
void sketch(std::span<const float> values, const SketchShape& shape, std::uint64_t key,
            std::span<float> table, Isa path);
/// values := for each the median of its rows' estimates.
void estimate(std::span<const float> table, const SketchShape& shape, std::uint64_t key,
              std::span<float> values, Isa path);

}  // namespace taxon::codec
