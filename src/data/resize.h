#pragma once

#include <span>

#include "data/transform.h"

namespace taxon::data {

/// A rectangle of an image, in pixels.
struct Region {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
};

/// Writes `region` of the image `from`, brought to the height and width of `to_extents`, channel by channel.
/// A triangle filter, as wide as a pixel of the result where that is the larger one, so that shrinking does
/// not alias ("bilinear" of Pillow). REQUIRES: as many channels in both; the region lies in the image.
void resize(std::span<const float> from, const ImageExtents& from_extents, const Region& region,
            std::span<float> to, const ImageExtents& to_extents);

}  // namespace taxon::data
