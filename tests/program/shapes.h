#pragma once

#include <vector>

#include "program/schedule.h"

namespace taxon::program {

/// Every shape up to 8 ranks and 24 micro-batches that the row takes, with its options as they stand.
inline std::vector<Shape> shapes_of(const ScheduleRow& row) {
  std::vector<Shape> shapes;
  for (int stages = 1; stages <= 16; ++stages)
    for (int micros = 1; micros <= 24; ++micros)
      if (shape_problems(row, {stages, micros}).empty() && row.ranks({stages, micros}, {}) <= 8)
        shapes.push_back({stages, micros});
  return shapes;
}

}  // namespace taxon::program
