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

/// `format`: of the pixels, such as PNG_FORMAT_RGBA.
inline std::vector<std::byte> png(const Pixels& pixels, int width, int height,
                                  png_uint_32 format = PNG_FORMAT_RGB) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = format;
  png_alloc_size_t size = 0;
  TAXON_CHECK(png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0, nullptr) != 0);
  std::vector<std::byte> bytes(size);
  TAXON_CHECK(png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr) != 0);
  return bytes;
}

/// One grey of 16 bits, in a file that says nothing of gamma, which libpng's simple writer always does.
inline std::vector<std::byte> png_of_16_bits(int grey, int width, int height) {
  std::vector<std::byte> bytes;
  const auto take = [](png_structp file, png_bytep data, std::size_t size) {
    const auto* from = reinterpret_cast<const std::byte*>(data);
    auto& to = *static_cast<std::vector<std::byte>*>(png_get_io_ptr(file));
    to.insert(to.end(), from, from + size);
  };
  png_structp file = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  TAXON_CHECK(file != nullptr);
  png_infop info = png_create_info_struct(file);
  png_set_write_fn(file, &bytes, take, [](png_structp) {});
  png_set_IHDR(file, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), 16,
               PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_write_info(file, info);
  Pixels row;
  for (int k = 0; k < width; ++k)
    for (int value : {grey >> 8, grey & 0xff}) row.push_back(static_cast<unsigned char>(value));
  for (int k = 0; k < height; ++k) png_write_row(file, row.data());
  png_write_end(file, nullptr);
  png_destroy_write_struct(&file, &info);
  return bytes;
}

}  // namespace taxon::test
