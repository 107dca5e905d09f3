#pragma once

#include <cstdint>
#include <vector>

namespace taxon::data {

/// What one sample looks like.
struct SampleShape {
  std::vector<std::int64_t> input;  // e.g. {1, 28, 28}
  int classes = 0;
  std::int64_t elements() const {
    std::int64_t n = 1;
    for (std::int64_t extent : input) n *= extent;
    return n;
  }
};

}  // namespace taxon::data
