#pragma once

#include <memory>

#include "data/dataset.h"

namespace taxon::data {

/// In which order samples count as the first and the last.
enum class Order {
  AsTheyLie,
  Drawn,  // a Fisher-Yates permutation from Rng(seed, "split order")
};

/// `size` samples of `whole` from the `first`-th on in that order. REQUIRES: they are there.
std::unique_ptr<Dataset> select(std::shared_ptr<const Dataset> whole, Order order, std::uint64_t seed,
                                std::int64_t first, std::int64_t size);

}  // namespace taxon::data
