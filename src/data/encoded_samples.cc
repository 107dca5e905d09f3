#include "data/encoded_samples.h"

#include <fmt/format.h>

#include <optional>

#include "base/check.h"
#include "base/error.h"
#include "data/npy.h"

namespace taxon::data {
namespace {

constexpr std::size_t kHead = 64 << 10;  // beyond what cameras put before the size

ImageExtents extents_of(const SampleFile& file, int channels) {
  const std::vector<std::byte> head = file.head(kHead);
  try {
    return image_extents(head, channels);
  } catch (const ImageFault&) {
    if (head.size() < kHead) throw;
  }
  return image_extents(file.bytes(), channels);
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

/// What `look` finds in the first file of an input that can be read.
template <class Look>
auto first_of(const SampleFiles& files, std::size_t input, FaultLog& faults, std::string_view kind,
              Look&& look) {
  for (std::int64_t index = 0; index < files.size(); ++index) {
    const SampleFile file{files, index, input};
    decltype(look(file)) found;
    const auto fault = fault_of([&] { found = look(file); });
    if (!fault) return found;
    faults.found(file.name(), *fault);
  }
  throw Error(ErrorKind::Data, fmt::format("data: there is no {} that can be read", kind));
}

class ImageDecoder final : public FileDecoder {
 public:
  ImageDecoder(const ImageOptions& options, const ImageExtents& extents, const plan::DataPlan& plan)
      : options_(options),
        extents_(extents),
        part_{extents.list()},
        scale_(static_cast<float>(1 / (255 * plan.deviation))),
        shift_(static_cast<float>(-plan.mean / plan.deviation)) {}
  const Part& part() const override { return part_; }
  void check(const SampleFile& file, FileCheck what) const override {
    if (what == FileCheck::Heads) return require_size(extents_of(file, options_.channels));
    std::vector<float> scratch(static_cast<std::size_t>(part_.elements()));
    read(file, std::span(scratch));
  }
  void read(const SampleFile& file, const Room& to) const override {
    const DecodedImage image = decode_image(file.bytes(), options_.channels, options_.height, options_.width);
    require_size(image.extents);
    const std::span<float> pixels = numbers(to);
    fit_image(image, extents_, pixels);
    for (float& value : pixels) value = value * scale_ + shift_;
  }

 private:
  void require_size(const ImageExtents& found) const {
    if (options_.height > 0 || (found.height == extents_.height && found.width == extents_.width)) return;
    throw ImageFault(
        fmt::format("is an image of {} x {} pixels, the first is of {} x {}; data.height and "
                    "data.width bring all to one size",
                    found.height, found.width, extents_.height, extents_.width));
  }

  const ImageOptions options_;
  const ImageExtents extents_;
  const Part part_;
  const float scale_, shift_;  // pixel * scale + shift
};

NpyFile read_array(const SampleFile& file) { return parse_npy(file.bytes(), "its array"); }

class ArrayDecoder final : public FileDecoder {
 public:
  ArrayDecoder(Part part, const plan::DataPlan& plan) : part_(std::move(part)), plan_(plan) {}
  const Part& part() const override { return part_; }
  void check(const SampleFile& file, FileCheck) const override { usable(file); }
  void read(const SampleFile& file, const Room& to) const override {
    const NpyFile array = usable(file);
    const NumberScale scale = scale_of(array, part_.type, plan_);
    to.visit([&]<class T>(std::span<T> room) {
      for (std::size_t i = 0; i < room.size(); ++i) room[i] = static_cast<T>(scale(array.number(i)));
    });
  }

 private:
  NpyFile usable(const SampleFile& file) const {
    NpyFile array = read_array(file);
    const std::vector<std::int64_t> extents = sample_extents(array.extents, is_pixels(array, part_.type));
    if (extents != part_.extents)
      throw Error(ErrorKind::Data, fmt::format("is an array of [{}], the first is of [{}]",
                                               fmt::join(extents, ", "), fmt::join(part_.extents, ", ")));
    const std::string fault = fault_of_elements(array, part_.type, {0, array.count()}, "element");
    if (!fault.empty()) throw Error(ErrorKind::Data, fault);
    return array;
  }

  const Part part_;
  const plan::DataPlan plan_;
};

}  // namespace

std::shared_ptr<const FileDecoder> image_decoder(const SampleFiles& files, std::size_t input,
                                                 const ImageOptions& options, const OpenContext& context) {
  if ((options.height > 0) != (options.width > 0))
    throw Error(ErrorKind::Usage, "data.height and data.width: give both, or neither");
  ImageExtents extents{options.channels, options.height, options.width};
  if (options.height == 0)
    extents = first_of(files, input, *context.faults, "image",
                       [&](const SampleFile& file) { return extents_of(file, options.channels); });
  return std::make_shared<ImageDecoder>(options, extents, context.plan);
}

std::shared_ptr<const FileDecoder> array_decoder(const SampleFiles& files, std::size_t input, DType type,
                                                 const OpenContext& context) {
  auto extents = first_of(files, input, *context.faults, "array", [&](const SampleFile& file) {
    const NpyFile array = read_array(file);
    if (array.count() == 0) throw Error(ErrorKind::Data, "holds nothing");
    return sample_extents(array.extents, is_pixels(array, type));
  });
  return std::make_shared<ArrayDecoder>(Part{std::move(extents), type}, context.plan);
}

EncodedSamples::EncodedSamples(std::unique_ptr<SampleFiles> files, FileDecoders decoders, FileCheck check,
                               int classes, const OpenContext& context)
    : files_(std::move(files)),
      decoders_(std::move(decoders)),
      faults_(context.faults),
      shape_{.input = decoders_.front()->part().extents,
             .classes = classes,
             .input_type = decoders_.front()->part().type} {
  for (std::size_t input = 1; input < decoders_.size(); ++input)
    shape_.more.push_back(decoders_[input]->part());
  for (std::int64_t sample = 0; sample < files_->size(); ++sample)
    if (check == FileCheck::None ||
        is_usable(sample, [&](const SampleFile& file) { decoders_[file.input]->check(file, check); }))
      usable_.push_back(sample);
}

/// Whether `look` can look at all files of a sample.
template <class Look>
bool EncodedSamples::is_usable(std::int64_t sample, Look&& look) const {
  for (std::size_t input = 0; input < decoders_.size(); ++input) {
    const SampleFile file{*files_, sample, input};
    const auto fault = fault_of([&] { look(file); });
    if (fault) faults_->found(file.name(), *fault);
    if (fault) return false;
  }
  return true;
}

bool EncodedSamples::read_usable(std::int64_t index, const Rooms& room) const {
  TAXON_CHECK(index >= 0 && index < size(), "index ", index, " of ", size());
  const std::int64_t sample = usable_[static_cast<std::size_t>(index)];
  whole(room.labels).front() = files_->label(sample);
  return is_usable(
      sample, [&](const SampleFile& file) { decoders_[file.input]->read(file, room.inputs[file.input]); });
}

void EncodedSamples::read_parts(std::optional<std::int64_t>, std::span<const std::int64_t> indices,
                                const Rooms& rooms) const {
  data::read_usable(
      *this, size(), [](std::int64_t index) { return index; }, indices, rooms);
}

}  // namespace taxon::data
