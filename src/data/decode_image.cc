#include "data/decode_image.h"

#include <fmt/format.h>
#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "base/check.h"
#include "data/resize.h"

namespace taxon::data {
namespace {

constexpr std::int64_t kMostPixels = std::int64_t{1} << 26;

enum class Kind { Jpeg, Png };

Kind kind_of(std::span<const std::byte> bytes) {
  auto begins = [&](std::initializer_list<unsigned> head) {
    return bytes.size() >= head.size() &&
           std::equal(head.begin(), head.end(), bytes.begin(),
                      [](unsigned a, std::byte b) { return std::byte(a) == b; });
  };
  if (begins({0xff, 0xd8, 0xff})) return Kind::Jpeg;
  if (begins({0x89, 'P', 'N', 'G', 0x0d, 0x0a, 0x1a, 0x0a})) return Kind::Png;
  throw ImageFault(bytes.empty() ? "is empty" : "is neither a JPEG nor a PNG file by its first bytes");
}

ImageExtents checked(std::int64_t channels, std::int64_t height, std::int64_t width) {
  if (height < 1 || width < 1 || height > kMostPixels / width)
    throw ImageFault(fmt::format("claims to be an image of {} x {} pixels", height, width));
  return {channels, height, width};
}

/// Pixel by pixel to channel by channel.
DecodedImage by_channel(const ImageExtents& extents, const std::vector<unsigned char>& bytes) {
  DecodedImage image{extents, std::vector<float>(bytes.size())};
  const auto channels = static_cast<std::size_t>(extents.channels), plane = bytes.size() / channels;
  for (std::size_t c = 0; c < channels; ++c)
    for (std::size_t k = 0; k < plane; ++k)
      image.pixels[c * plane + k] = static_cast<float>(bytes[k * channels + c]);
  return image;
}

/// Of Rec. 601, as JPEG has it; grey stays what it is.
int luma(const std::array<int, 3>& colour) {
  return (299 * colour[0] + 587 * colour[1] + 114 * colour[2] + 500) / 1000;
}

class Jpeg {
 public:
  explicit Jpeg(std::span<const std::byte> bytes)
      : decoder_(tjInitDecompress(), tjDestroy),
        bytes_(reinterpret_cast<const unsigned char*>(bytes.data())),
        size_(bytes.size()) {
    TAXON_CHECK(decoder_ != nullptr);
    int subsampling = 0, colours = 0;
    if (tjDecompressHeader3(decoder_.get(), bytes_, size_, &width_, &height_, &subsampling, &colours) != 0)
      fail();
    if (colours == TJCS_CMYK || colours == TJCS_YCCK)
      throw ImageFault("is a JPEG file of four colours (CMYK), for print; convert it to RGB");
  }
  ImageExtents extents(int channels) const { return checked(channels, height_, width_); }

  DecodedImage decode(int channels, std::int64_t height, std::int64_t width) {
    checked(channels, height_, width_);
    tjscalingfactor scale{1, 1};
    for (int part : {2, 4, 8}) {
      const tjscalingfactor next{1, part};
      if (height > 0 && TJSCALED(height_, next) >= height && TJSCALED(width_, next) >= width) scale = next;
    }
    const ImageExtents extents{channels, TJSCALED(height_, scale), TJSCALED(width_, scale)};
    std::vector<unsigned char> pixels(
        static_cast<std::size_t>(extents.channels * extents.height * extents.width));
    // Warnings count: they are what a file that is cut short gives.
    if (tjDecompress2(decoder_.get(), bytes_, size_, pixels.data(), static_cast<int>(extents.width), 0,
                      static_cast<int>(extents.height), channels == 1 ? TJPF_GRAY : TJPF_RGB,
                      TJFLAG_ACCURATEDCT) != 0)
      fail();
    return by_channel(extents, pixels);
  }

 private:
  [[noreturn]] void fail() {
    throw ImageFault(fmt::format("is a damaged JPEG file: {}", tjGetErrorStr2(decoder_.get())));
  }
  std::unique_ptr<void, int (*)(tjhandle)> decoder_;
  const unsigned char* bytes_;
  unsigned long size_;
  int width_ = 0, height_ = 0;
};

class Png {
 public:
  explicit Png(std::span<const std::byte> bytes) {
    image_.version = PNG_IMAGE_VERSION;
    if (png_image_begin_read_from_memory(&image_, bytes.data(), bytes.size()) == 0) fail();
    image_.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // unless it says so, 16 bits are no more linear than 8
  }
  Png(const Png&) = delete;
  ~Png() { png_image_free(&image_); }
  ImageExtents extents(int channels) const { return checked(channels, image_.height, image_.width); }

  /// What is transparent is black. That and grey are made of the bytes as they are, as in a JPEG; libpng
  /// would do both in linear light.
  DecodedImage decode(int channels) {
    const ImageExtents found = extents(channels);
    image_.format = PNG_FORMAT_RGBA;
    std::vector<unsigned char> pixels(PNG_IMAGE_SIZE(image_));
    if (png_image_finish_read(&image_, nullptr, pixels.data(), 0, nullptr) == 0 ||
        (image_.warning_or_error & PNG_IMAGE_ERROR) != 0)
      fail();
    std::vector<unsigned char> seen;
    seen.reserve(pixels.size() / 4 * static_cast<std::size_t>(channels));
    for (std::size_t k = 0; k < pixels.size(); k += 4) {
      std::array<int, 3> colour{};
      for (std::size_t c = 0; c < colour.size(); ++c) colour[c] = (pixels[k + c] * pixels[k + 3] + 127) / 255;
      if (channels == 1) colour[0] = luma(colour);
      for (int c = 0; c < channels; ++c)
        seen.push_back(static_cast<unsigned char>(colour[static_cast<std::size_t>(c)]));
    }
    return by_channel(found, seen);
  }

 private:
  [[noreturn]] void fail() {
    throw ImageFault(fmt::format("is a damaged PNG file: {}", static_cast<const char*>(image_.message)));
  }
  png_image image_{};
};

}  // namespace

DecodedImage decode_image(std::span<const std::byte> bytes, int channels, std::int64_t height,
                          std::int64_t width) {
  TAXON_CHECK(channels == 1 || channels == 3, "channels=", channels);
  return kind_of(bytes) == Kind::Jpeg ? Jpeg(bytes).decode(channels, height, width)
                                      : Png(bytes).decode(channels);
}

ImageExtents image_extents(std::span<const std::byte> bytes, int channels) {
  return kind_of(bytes) == Kind::Jpeg ? Jpeg(bytes).extents(channels) : Png(bytes).extents(channels);
}

void fit_image(const DecodedImage& image, const ImageExtents& extents, std::span<float> to) {
  const ImageExtents& from = image.extents;
  if (from.height == extents.height && from.width == extents.width) {
    std::copy(image.pixels.begin(), image.pixels.end(), to.begin());
    return;
  }
  const double scale = std::min(static_cast<double>(from.height) / static_cast<double>(extents.height),
                                static_cast<double>(from.width) / static_cast<double>(extents.width));
  auto side = [&](std::int64_t wanted, std::int64_t there) {
    return std::clamp<std::int64_t>(std::lround(scale * static_cast<double>(wanted)), 1, there);
  };
  const std::int64_t height = side(extents.height, from.height), width = side(extents.width, from.width);
  resize(image.pixels, from, {(from.height - height) / 2, (from.width - width) / 2, height, width}, to,
         extents);
}

}  // namespace taxon::data
