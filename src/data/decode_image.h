#pragma once

#include <span>
#include <stdexcept>
#include <vector>

#include "base/view.h"
#include "data/transform.h"

namespace taxon::data {

/// Why bytes are no image that can be used.
class ImageFault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Pixels of an image of bytes, 0 to 255, channel by channel.
struct DecodedImage {
  ImageExtents extents;
  std::vector<float> pixels;
};

/// A JPEG or a PNG file, whichever its first bytes say, in one channel (grey) or three (red, green, blue). A
/// JPEG may come at a half, a quarter or an eighth of its size, where that is still at least `height` x
/// `width`; 0: as it is. Throws ImageFault: damaged, cut short, another kind of file, or claims to be
/// impossibly large. Any thread.
DecodedImage decode_image(std::span<const std::byte> bytes, int channels, std::int64_t height,
                          std::int64_t width);
/// Height and width by the head of the file alone, of which `bytes` may be the first part. Throws ImageFault.
ImageExtents image_extents(std::span<const std::byte> bytes, int channels);

/// The image brought to `extents`: its middle part of their aspect, resized.
void fit_image(const DecodedImage& image, const ImageExtents& extents, std::span<float> to);

}  // namespace taxon::data
