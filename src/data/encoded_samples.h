#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/decode_image.h"

namespace taxon::data {

/// Files of samples, one for each input, with labels, wherever they lie. Immutable; any thread.
class SampleFiles {
 public:
  virtual ~SampleFiles() = default;
  virtual std::int64_t size() const = 0;
  virtual std::int64_t label(std::int64_t index) const = 0;
  /// Path, and what is needed to find the file within that.
  virtual std::string name(std::int64_t index, std::size_t input) const = 0;
  /// The whole file. Throws Error{Data}.
  virtual std::vector<std::byte> bytes(std::int64_t index, std::size_t input) const = 0;
  /// The first bytes of it: `most`, or all there are.
  virtual std::vector<std::byte> head(std::int64_t index, std::size_t input, std::size_t most) const = 0;
};

/// One of these files.
struct SampleFile {
  const SampleFiles& files;
  std::int64_t index = 0;
  std::size_t input = 0;
  std::string name() const { return files.name(index, input); }
  std::vector<std::byte> bytes() const { return files.bytes(index, input); }
  std::vector<std::byte> head(std::size_t most) const { return files.head(index, input, most); }
};

/// Keys of data sets of image files.
enum class FileCheck : std::uint8_t { None, Heads, All };
struct ImageOptions {
  int channels = 3;
  std::int64_t height = 0, width = 0;
  FileCheck check = FileCheck::Heads;
};

/// What the files of one input become. Immutable; any thread. Throws ImageFault or Error{Data} for a file
/// that can't be used.
class FileDecoder {
 public:
  virtual ~FileDecoder() = default;
  virtual const Part& part() const = 0;
  /// Looks at a file as far as `what`, which is not None, says.
  virtual void check(const SampleFile& file, FileCheck what) const = 0;
  /// REQUIRES: as much room as the part has elements, of its type.
  virtual void read(const SampleFile& file, const Room& to) const = 0;
};
using FileDecoders = std::vector<std::shared_ptr<const FileDecoder>>;

/// Images, each brought to one size, (pixel / 255 - mean) / deviation: the one that the options say, or that
/// of the first that can be read. Throws Error{Data} if there is none.
std::shared_ptr<const FileDecoder> image_decoder(const SampleFiles& files, std::size_t input,
                                                 const ImageOptions& options, const OpenContext& context);
/// NumPy arrays, each of one sample, taken as that type, of the shape of the first that can be read; unsigned
/// bytes as float32 are pixels. Throws as above.
std::shared_ptr<const FileDecoder> array_decoder(const SampleFiles& files, std::size_t input, DType type,
                                                 const OpenContext& context);

/// Samples whose files are decoded when they are read.
class EncodedSamples final : public Dataset {
 public:
  /// A decoder for each input. Looks at the files as `check` says.
  EncodedSamples(std::unique_ptr<SampleFiles> files, FileDecoders decoders, FileCheck check, int classes,
                 const OpenContext& context);
  std::int64_t size() const override { return static_cast<std::int64_t>(usable_.size()); }
  const SampleShape& shape() const override { return shape_; }
  void read_parts(std::optional<std::int64_t> epoch, std::span<const std::int64_t> indices,
                  const Rooms& rooms) const override;
  bool read_usable(std::int64_t index, const Rooms& room) const override;
  bool may_leave_out() const override { return true; }
  bool is_slow() const override { return true; }

 private:
  template <class Look>
  bool is_usable(std::int64_t sample, Look&& look) const;

  const std::unique_ptr<SampleFiles> files_;
  const FileDecoders decoders_;
  const std::shared_ptr<FaultLog> faults_;
  SampleShape shape_;
  std::vector<std::int64_t> usable_;  // samples, as far as is known
};

}  // namespace taxon::data

namespace taxon::plan {

template <>
struct Words<data::FileCheck> {
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
                                "image, and arrays; all: every pixel."},
        o.check);
}

}  // namespace taxon::data
