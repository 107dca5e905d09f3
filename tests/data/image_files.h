#pragma once

#include <png.h>
#include <turbojpeg.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"

namespace taxon::test {

using Pixels = std::vector<unsigned char>;  // red, green, blue, pixel by pixel

/// One colour.
inline Pixels plain(int width, int height, int red, int green, int blue) {
  Pixels pixels;
  for (int k = 0; k < width * height; ++k)
    for (int value : {red, green, blue}) pixels.push_back(static_cast<unsigned char>(value));
  return pixels;
}

inline std::vector<std::byte> jpeg(const Pixels& pixels, int width, int height) {
  tjhandle encoder = tjInitCompress();
  unsigned char* file = nullptr;
  unsigned long size = 0;
  TAXON_CHECK(tjCompress2(encoder, pixels.data(), width, 0, height, TJPF_RGB, &file, &size, TJSAMP_444, 100,
                          TJFLAG_ACCURATEDCT) == 0);
  const auto* bytes = reinterpret_cast<const std::byte*>(file);
  std::vector<std::byte> copy(bytes, bytes + size);
  tjFree(file);
  tjDestroy(encoder);
  return copy;
}

inline std::vector<std::byte> png(const Pixels& pixels, int width, int height) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  TAXON_CHECK(png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0, nullptr) != 0);
  std::vector<std::byte> bytes(size);
  TAXON_CHECK(png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr) != 0);
  return bytes;
}

}  // namespace taxon::test
