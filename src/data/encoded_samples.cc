#include "data/encoded_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/error.h"

namespace taxon::data {
namespace {

constexpr std::size_t kHead = 64 << 10;  // beyond what cameras put before the size

ImageExtents extents_of(const ImageSource& source, std::int64_t file, int channels) {
  const std::vector<std::byte> head = source.head(file, kHead);
  try {
    return image_extents(head, channels);
  } catch (const ImageFault&) {
    if (head.size() < kHead) throw;
  }
  return image_extents(source.bytes(file), channels);
}

/// What is wrong with the file that `look` looks at.
template <class Look>
std::optional<std::string> fault_of(Look&& look) {
  try {
    look();
    return {};
  } catch (const ImageFault& fault) {
    return fault.what();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Data) throw;
    return error.what();
  }
}

}  // namespace

ImageExtents common_extents(const ImageSource& source, const ImageOptions& options, FaultLog& faults) {
  if (options.height > 0 && options.width > 0) return {options.channels, options.height, options.width};
  if (options.height != options.width)
    throw Error(ErrorKind::Usage, "data.height and data.width: give both, or neither");
  for (std::int64_t file = 0; file < source.size(); ++file) {
    ImageExtents found;
    const auto fault = fault_of([&] { found = extents_of(source, file, options.channels); });
    if (!fault) return found;
    faults.found(source.name(file), *fault);
  }
  throw Error(ErrorKind::Data, "data: there is no image that can be read");
}

EncodedImages::EncodedImages(std::unique_ptr<ImageSource> source, const ImageOptions& options,
                             const ImageExtents& extents, int classes, const OpenContext& context)
    : source_(std::move(source)),
      options_(options),
      extents_(extents),
      faults_(context.faults),
      shape_{.input = extents.list(), .classes = classes},
      scale_(static_cast<float>(1 / (255 * context.plan.deviation))),
      shift_(static_cast<float>(-context.plan.mean / context.plan.deviation)) {
  check(options.check);
}

void EncodedImages::require_size(const ImageExtents& found) const {
  if (options_.height > 0 || (found.height == extents_.height && found.width == extents_.width)) return;
  throw ImageFault(
      fmt::format("is an image of {} x {} pixels, the first is of {} x {}; data.height and "
                  "data.width bring all to one size",
                  found.height, found.width, extents_.height, extents_.width));
}

void EncodedImages::check(ImageCheck what) {
  std::vector<float> scratch(static_cast<std::size_t>(shape_.elements()));
  for (std::int64_t file = 0; file < source_->size(); ++file) {
    const auto fault = fault_of([&] {
      if (what == ImageCheck::Heads) require_size(extents_of(*source_, file, options_.channels));
      if (what == ImageCheck::All) read_file(file, scratch);
    });
    if (fault)
      faults_->found(source_->name(file), *fault);
    else
      usable_.push_back(file);
  }
}

void EncodedImages::read_file(std::int64_t file, std::span<float> input) const {
  const DecodedImage image =
      decode_image(source_->bytes(file), options_.channels, options_.height, options_.width);
  require_size(image.extents);
  fit_image(image, extents_, input);
  for (float& value : input) value = value * scale_ + shift_;
}

bool EncodedImages::read_usable(std::int64_t index, std::span<float> input, std::int64_t& label) const {
  TAXON_CHECK(index >= 0 && index < size(), "index ", index, " of ", size());
  const std::int64_t file = usable_[static_cast<std::size_t>(index)];
  label = source_->label(file);
  const auto fault = fault_of([&] { read_file(file, input); });
  if (fault) faults_->found(source_->name(file), *fault);
  return !fault;
}

void EncodedImages::read(std::span<const std::int64_t> indices, std::span<float> inputs,
                         std::span<std::int64_t> labels) const {
  data::read_usable(
      *this, size(), [](std::int64_t index) { return index; }, indices, inputs, labels);
}

}  // namespace taxon::data
