#include "data/resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace taxon::data {
namespace {

/// What makes one pixel of a row or column: neighbouring ones and their weights.
struct Taps {
  std::int64_t first = 0;
  std::vector<float> weights;  // their sum is 1
};

std::vector<Taps> taps_of(std::int64_t begin, std::int64_t size, std::int64_t wanted) {
  const double scale = static_cast<double>(size) / static_cast<double>(wanted);
  const double reach = std::max(scale, 1.0);
  std::vector<Taps> all;
  for (std::int64_t i = 0; i < wanted; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil(centre - reach - 0.5)));
    const auto last = std::min(size - 1, static_cast<std::int64_t>(std::floor(centre + reach - 0.5)));
    std::vector<double> weights;
    double sum = 0;
    for (std::int64_t k = first; k <= last; ++k) {
      weights.push_back(std::max(0.0, 1 - std::abs(static_cast<double>(k) + 0.5 - centre) / reach));
      sum += weights.back();
    }
    Taps taps{begin + first, {}};
    for (double weight : weights) taps.weights.push_back(static_cast<float>(weight / sum));
    all.push_back(std::move(taps));
  }
  return all;
}

}  // namespace

void resize(std::span<const float> from, const ImageExtents& from_extents, const Region& region,
            std::span<float> to, const ImageExtents& to_extents) {
  const auto [channels, height, width] = from_extents;
  TAXON_CHECK(channels == to_extents.channels && region.height > 0 && region.width > 0 && region.top >= 0 &&
              region.left >= 0 && region.top + region.height <= height &&
              region.left + region.width <= width);
  const std::vector<Taps> across = taps_of(region.left, region.width, to_extents.width);
  const std::vector<Taps> down = taps_of(region.top, region.height, to_extents.height);
  const auto columns = static_cast<std::size_t>(to_extents.width), stride = static_cast<std::size_t>(width);
  std::vector<float> rows(static_cast<std::size_t>(height) * columns);  // those of the region are filled
  for (std::int64_t c = 0; c < channels; ++c) {
    const float* plane = from.data() + static_cast<std::size_t>(c * height) * stride;
    for (std::int64_t y = region.top; y < region.top + region.height; ++y)
      for (std::size_t x = 0; x < columns; ++x) {
        const Taps& taps = across[x];
        const float* pixel = plane + static_cast<std::size_t>(y) * stride + taps.first;
        float sum = 0;
        for (std::size_t k = 0; k < taps.weights.size(); ++k) sum += taps.weights[k] * pixel[k];
        rows[static_cast<std::size_t>(y) * columns + x] = sum;
      }
    float* out = to.data() + static_cast<std::size_t>(c * to_extents.height) * columns;
    for (std::int64_t y = 0; y < to_extents.height; ++y, out += columns) {
      const Taps& taps = down[static_cast<std::size_t>(y)];
      std::fill_n(out, columns, 0.0F);
      for (std::size_t k = 0; k < taps.weights.size(); ++k) {
        const float* row = rows.data() + (static_cast<std::size_t>(taps.first) + k) * columns;
        for (std::size_t x = 0; x < columns; ++x) out[x] += taps.weights[k] * row[x];
      }
    }
  }
}

}  // namespace taxon::data
