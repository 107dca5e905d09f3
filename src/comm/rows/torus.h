#pragma once

#include "comm/collectives.h"
#include "comm/rows/ring.h"

namespace taxon::comm {

/// Members as a grid, one row after the other, as square as their number allows: one row of a prime number.
struct Grid {
  explicit Grid(int members);
  Circle row_of(int member) const { return {member / columns * columns, 1, columns}; }
  Circle column_of(int member) const { return {member % columns, columns, rows}; }
  /// Parts of the data that travel at the same time by rings of their own: the first along rows and then
  /// along columns, the second along columns and then along rows.
  int colours() const { return rows > 1 ? 2 : 1; }

  int rows = 1, columns = 1;
};

/// What a member does for one colour: rings of `call`, one after the other.
struct TorusPhase {
  Circle circle;
  Range range;  // elements of the colour's
  Ring::Steps steps;
};
/// Reduce-scatter along the first dimension, all-reduce of the own part along the second, all-gather along
/// the first. `count`: elements of the colour's.
std::vector<TorusPhase> torus_phases(const Grid& grid, int member, int colour, std::size_t count);

}  // namespace taxon::comm
