#pragma once

#include <cstddef>
#include <span>

#include "base/isa.h"
#include "base/view.h"

namespace taxon::codec {

/// Blocks of sufficient factors, one after the other: in each a matrix D of `rows` x `outputs`, then a matrix
/// X of `rows` x `inputs`, both row after row.
struct OuterShape {
  std::size_t blocks = 1, rows = 0, outputs = 0, inputs = 0;
  std::size_t block() const { return rows * (outputs + inputs); }
};

/// Columns `columns` of sum := D^T X over all blocks, a matrix of `outputs` x `inputs`. Each element adds up
/// block after block and row after row, product by product, so equal arguments give equal bits on every path
/// and however the columns are cut. float or double. REQUIRES: factors.size() == blocks * block().
template <class T>
void sum_outer_products(std::span<const T> factors, const OuterShape& shape, Range columns, std::span<T> sum,
                        Isa path = best_isa());

}  // namespace taxon::codec
