#include "data/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "data/halves.h"
#include "data/image_dataset.h"
#include "data/number_dataset.h"

namespace taxon::data {
namespace {

struct NpyOptions {
  std::string samples = "samples.npy";
  std::string labels = "labels.npy";
  int classes = 0;
  bool channels_last = false;
};
template <plan::Like<NpyOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  constexpr std::string_view kWord = " {set} in it becomes train, test or validation.";
  static const std::string samples = "Name of the file of samples;" + std::string(kWord),
                           labels = "Name of the file of labels;" + std::string(kWord);
  visit(plan::Field{.key = "samples", .sentence = samples}, o.samples);
  visit(plan::Field{.key = "labels", .sentence = labels}, o.labels);
  visit(plan::Field{.key = "classes",
                    .sentence = "Labels are 0 to this less one; 0: to the largest of the training set.",
                    .min = 0,
                    .max = 1 << 24},
        o.classes);
  visit(plan::Field{.key = "channels_last",
                    .sentence = "Samples of three extents are [height, width, channels]; they become "
                                "[channels, height, width]."},
        o.channels_last);
}

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::Data, fmt::format("{}: {}", path, why), {{}, "read", path});
}

/// The two arrays of a set.
struct Arrays {
  std::string path, labels_path;
  NpyFile samples, labels;
};

Arrays read_arrays(const Storage& storage, const NpyOptions& options, const std::string& folder,
                   const std::string& set) {
  auto path_of = [&](std::string name) {
    if (const std::size_t at = name.find("{set}"); at != std::string::npos) name.replace(at, 5, set);
    return folder + "/" + name;
  };
  Arrays arrays{.path = path_of(options.samples), .labels_path = path_of(options.labels)};
  arrays.samples = parse_npy(storage.read(arrays.path), arrays.path);
  arrays.labels = parse_npy(storage.read(arrays.labels_path), arrays.labels_path);
  const auto& extents = arrays.labels.extents;
  if (arrays.labels.kind == 'f' || arrays.labels.count() != static_cast<std::size_t>(extents[0]))
    fail(arrays.labels_path,
         fmt::format("labels must be one whole number for each sample, and it holds {} of "
                     "shape [{}]",
                     arrays.labels.kind == 'f' ? "floating-point numbers" : "numbers",
                     fmt::join(extents, ", ")));
  if (arrays.samples.extents[0] != extents[0])
    fail(arrays.labels_path, fmt::format("has {} labels, but {} has {} samples", extents[0], arrays.path,
                                         arrays.samples.extents[0]));
  if (arrays.samples.count() == 0) fail(arrays.path, "holds nothing");
  return arrays;
}

bool is_pixels(const NpyFile& file) { return file.kind == 'u' && file.width == 1; }

/// Of a sample, as a model sees it.
std::vector<std::int64_t> input_of(const NpyFile& file, const NpyOptions& options) {
  std::vector<std::int64_t> input(file.extents.begin() + 1, file.extents.end());
  if (input.empty()) return {1};
  if (options.channels_last && input.size() == 3) return {input[2], input[0], input[1]};
  if (is_pixels(file) && input.size() == 2) return {1, input[0], input[1]};
  return input;
}

/// Where an element of a sample stands in the file's sample.
std::vector<std::size_t> order_of(const std::vector<std::int64_t>& input, bool channels_last) {
  std::size_t elements = 1;
  for (std::int64_t extent : input) elements *= static_cast<std::size_t>(extent);
  std::vector<std::size_t> order(elements);
  const auto channels = channels_last && input.size() == 3 ? static_cast<std::size_t>(input[0]) : 1;
  const std::size_t plane = elements / channels;
  for (std::size_t k = 0; k < elements; ++k) order[k] = k % plane * channels + k / plane;
  return order;
}

class Opener {
 public:
  explicit Opener(const OpenContext& context)
      : context_(context), options_(context.plan.options.read<NpyOptions>()), classes_(options_.classes) {}

  std::unique_ptr<Dataset> open(const std::string& folder, const std::string& set) {
    const Arrays arrays = read_arrays(context_.storage, options_, folder, set);
    if (classes_ == 0) classes_ = largest(arrays) + 1;
    const SampleShape shape{.input = input_of(arrays.samples, options_), .classes = classes_};
    const std::vector<std::size_t> usable = usable_of(arrays),
                                   order = order_of(shape.input, options_.channels_last);
    return is_pixels(arrays.samples) ? images(arrays, shape, usable, order)
                                     : numbers(arrays, shape, usable, order);
  }

 private:
  static int largest(const Arrays& arrays) {
    double most = 0;
    for (std::size_t i = 0; i < arrays.labels.count(); ++i) most = std::max(most, arrays.labels.number(i));
    if (most >= 1 << 24)
      fail(arrays.labels_path, fmt::format("has a label of {:.0f}; are these labels of classes?", most));
    return static_cast<int>(most);
  }

  std::vector<std::size_t> usable_of(const Arrays& arrays) const {
    const std::size_t count = arrays.labels.count(), elements = arrays.samples.count() / count;
    std::vector<std::size_t> usable;
    for (std::size_t i = 0; i < count; ++i) {
      const double label = arrays.labels.number(i);
      std::optional<std::string> fault;
      if (label < 0 || label >= classes_)
        fault = fmt::format("its label is {:.0f}, and 0 to {} are wanted", label, classes_ - 1);
      for (std::size_t k = 0; !fault && arrays.samples.kind == 'f' && k < elements; ++k)
        if (!std::isfinite(static_cast<float>(arrays.samples.number(i * elements + k))))
          fault = fmt::format("its element {} is not finite", k);
      if (fault)
        context_.faults->found(fmt::format("{}: sample {}", arrays.path, i), *fault);
      else
        usable.push_back(i);
    }
    return usable;
  }

  std::unique_ptr<Dataset> images(const Arrays& arrays, const SampleShape& shape,
                                  const std::vector<std::size_t>& usable,
                                  const std::vector<std::size_t>& order) const {
    ImageDataset::Content content{.shape = shape};
    content.bytes.reserve(usable.size() * order.size());
    for (std::size_t i : usable) {
      const auto sample = arrays.samples.elements().subspan(i * order.size(), order.size());
      for (std::size_t k : order) content.bytes.push_back(sample[k]);
      content.labels.push_back(static_cast<std::int32_t>(arrays.labels.number(i)));
    }
    return std::make_unique<ImageDataset>(std::move(content), context_.plan);
  }

  static std::unique_ptr<Dataset> numbers(const Arrays& arrays, const SampleShape& shape,
                                          const std::vector<std::size_t>& usable,
                                          const std::vector<std::size_t>& order) {
    std::vector<float> values;
    std::vector<std::int64_t> labels;
    values.reserve(usable.size() * order.size());
    for (std::size_t i : usable) {
      for (std::size_t k : order)
        values.push_back(static_cast<float>(arrays.samples.number(i * order.size() + k)));
      labels.push_back(static_cast<std::int64_t>(arrays.labels.number(i)));
    }
    return std::make_unique<NumberDataset>(shape, std::move(values), std::move(labels));
  }

  const OpenContext& context_;
  const NpyOptions options_;
  int classes_;
};

/// Where both sets lie in one folder, their files' names say which is which.
Datasets open(const OpenContext& context) {
  const auto options = context.plan.options.read<NpyOptions>();
  Opener opener(context);
  if (options.samples.find("{set}") != std::string::npos) {
    const std::string& path = context.plan.path;
    const std::string& test = context.plan.test_path;
    const std::string& validation = context.plan.validation_path;
    Datasets sets{.train = opener.open(path, "train")};
    sets.test = opener.open(test.empty() ? path : test, "test");
    if (!validation.empty()) sets.validation = opener.open(validation, "validation");
    return sets;
  }
  const Halves halves = find_folders(context);
  Datasets sets{.train = opener.open(halves.train, "train")};
  if (!halves.test.empty()) sets.test = opener.open(halves.test, "test");
  if (!halves.validation.empty()) sets.validation = opener.open(halves.validation, "validation");
  return sets;
}

}  // namespace

DatasetRow npy() {
  return {.name = "npy",
          .sentence =
              "NumPy arrays: samples, one after the other, and a whole number for each as its label. "
              "Unsigned bytes are pixels, other numbers are taken as they are. `path` holds both "
              "files, or folders train and test (or val) that do.",
          .open = open,
          .options = plan::option_keys<NpyOptions>,
          .by_class = true};
}

}  // namespace taxon::data
