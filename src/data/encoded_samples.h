#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/decode_image.h"

namespace taxon::data {

/// Image files with labels, wherever they lie. Immutable; any thread.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  virtual std::int64_t size() const = 0;
  virtual std::int64_t label(std::int64_t index) const = 0;
  /// Path, and what is needed to find the file within that.
  virtual std::string name(std::int64_t index) const = 0;
  /// The whole file. Throws Error{Data}.
  virtual std::vector<std::byte> bytes(std::int64_t index) const = 0;
  /// The first bytes of it: `most`, or all there are.
  virtual std::vector<std::byte> head(std::int64_t index, std::size_t most) const = 0;
};

/// Keys of data sets of image files.
enum class ImageCheck : std::uint8_t { None, Heads, All };
struct ImageOptions {
  int channels = 3;
  std::int64_t height = 0, width = 0;
  ImageCheck check = ImageCheck::Heads;
};

/// Images that are decoded when they are read: (pixel / 255 - mean) / deviation, each brought to one size.
class EncodedImages final : public Dataset {
 public:
  /// `extents`: of all samples. Looks at the files as the options say.
  EncodedImages(std::unique_ptr<ImageSource> source, const ImageOptions& options, const ImageExtents& extents,
                int classes, const OpenContext& context);
  std::int64_t size() const override { return static_cast<std::int64_t>(usable_.size()); }
  const SampleShape& shape() const override { return shape_; }
  void read(std::span<const std::int64_t> indices, std::span<float> inputs,
            std::span<std::int64_t> labels) const override;
  bool read_usable(std::int64_t index, std::span<float> input, std::int64_t& label) const override;
  bool may_leave_out() const override { return true; }
  bool is_slow() const override { return true; }

 private:
  void check(ImageCheck what);
  void read_file(std::int64_t file, std::span<float> input) const;
  void require_size(const ImageExtents& found) const;

  const std::unique_ptr<ImageSource> source_;
  const ImageOptions options_;
  const ImageExtents extents_;
  const std::shared_ptr<FaultLog> faults_;
  SampleShape shape_;
  std::vector<std::int64_t> usable_;  // files, as far as is known
  float scale_, shift_;               // pixel * scale + shift
};

/// What the options ask for, or the size of the first image. Throws Error{Data} if there is none.
ImageExtents common_extents(const ImageSource& source, const ImageOptions& options, FaultLog& faults);

}  // namespace taxon::data

namespace taxon::plan {

template <>
struct Words<data::ImageCheck> {
  static constexpr std::string_view all[] = {"none", "heads", "all"};
};

}  // namespace taxon::plan

namespace taxon::data {

template <plan::Like<ImageOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(plan::Field{.key = "channels",
                    .sentence = "Of the samples: 1 (grey) or 3 (red, green, blue), whatever the files have.",
                    .choices = "1 3"},
        o.channels);
  constexpr std::string_view kSize =
      "Of the samples, in pixels: larger and smaller images are resized, and "
      "cut to the same aspect around the middle; 0: all have the size of the "
      "first.";
  visit(plan::Field{.key = "height", .sentence = kSize, .min = 0, .max = 65536}, o.height);
  visit(plan::Field{.key = "width", .sentence = kSize, .min = 0, .max = 65536}, o.width);
  visit(plan::Field{.key = "check",
                    .sentence = "What is looked at before the run. none: names; heads: kind and size of each "
                                "image; all: every pixel."},
        o.check);
}

}  // namespace taxon::data
