#include "data/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "data/halves.h"
#include "data/image_dataset.h"
#include "data/number_dataset.h"
#include "data/storage_errors.h"
#include "data/typed_name.h"

namespace taxon::data {
namespace {

struct NpyOptions {
  std::string samples = "samples.npy";
  std::vector<std::string> inputs;
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
  visit(
      plan::Field{.key = "inputs",
                  .sentence = "Files in place of `samples`, one for each tensor of a sample, in the order in "
                              "which a model takes them; float32:, int64: or bool: before a name says as "
                              "what it is taken, float32 unless given."},
      o.inputs);
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

/// One tensor of all samples.
struct Input {
  std::string path;
  DType type = DType::Float32;
  NpyFile file;
  bool is_pixels() const { return data::is_pixels(file, type); }
};

/// The arrays of a set.
struct Arrays {
  std::vector<Input> inputs;
  std::string labels_path;
  NpyFile labels;
  bool has_targets() const { return labels.kind == 'f'; }
  std::size_t samples() const { return static_cast<std::size_t>(labels.extents[0]); }
};

std::string path_of(const std::string& folder, std::string name, const std::string& set) {
  if (const std::size_t at = name.find("{set}"); at != std::string::npos) name.replace(at, 5, set);
  return folder + "/" + name;
}

Arrays read_arrays(const Storage& storage, const NpyOptions& options, const std::string& folder,
                   const std::string& set) {
  Arrays arrays{.inputs = {}, .labels_path = path_of(folder, options.labels, set), .labels = {}};
  arrays.labels = parse_npy(storage.read(arrays.labels_path), arrays.labels_path);
  const auto& extents = arrays.labels.extents;
  if (!arrays.has_targets() && arrays.labels.count() != arrays.samples())
    fail_contents(
        arrays.labels_path,
        fmt::format("labels must be one whole number for each sample, or floating-point targets, and it "
                    "holds whole numbers of shape [{}]",
                    fmt::join(extents, ", ")));
  if (arrays.labels.count() == 0) fail_contents(arrays.labels_path, "holds nothing");
  const auto names = options.inputs.empty() ? std::vector{options.samples} : options.inputs;
  for (const std::string& name : names) {
    const auto [type, file] = typed(name);
    Input& input = arrays.inputs.emplace_back(Input{path_of(folder, std::string(file), set), type, {}});
    input.file = parse_npy(storage.read(input.path), input.path);
    if (input.file.extents[0] != extents[0])
      fail_contents(arrays.labels_path, fmt::format("has {} labels, but {} has {} samples", extents[0],
                                                    input.path, input.file.extents[0]));
    if (input.file.count() == 0) fail_contents(input.path, "holds nothing");
  }
  return arrays;
}

/// Of a sample, as a model sees it.
std::vector<std::int64_t> extents_of(const Input& from, bool channels_last) {
  const std::vector<std::int64_t> input(from.file.extents.begin() + 1, from.file.extents.end());
  if (channels_last && input.size() == 3) return {input[2], input[0], input[1]};
  return sample_extents(input, from.is_pixels());
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
    const SampleShape shape = shape_of(arrays);
    const std::vector<std::size_t> usable = usable_of(arrays);
    const bool are_images =
        arrays.inputs.size() == 1 && arrays.inputs[0].is_pixels() && !arrays.has_targets();
    return are_images ? images(arrays, shape, usable) : numbers(arrays, shape, usable);
  }

 private:
  SampleShape shape_of(const Arrays& arrays) {
    SampleShape shape;
    for (const Input& input : arrays.inputs)
      shape.more.push_back({extents_of(input, options_.channels_last), input.type});
    shape.input = shape.more.front().extents;
    shape.input_type = shape.more.front().type;
    shape.more.erase(shape.more.begin());
    if (arrays.has_targets()) {
      shape.target_type = DType::Float32;
      shape.target.assign(arrays.labels.extents.begin() + 1, arrays.labels.extents.end());
      if (shape.target.empty()) shape.target = {1};
      classes_ = static_cast<int>(shape.targets());
    } else if (classes_ == 0) {
      classes_ = largest(arrays) + 1;
    }
    shape.classes = classes_;
    return shape;
  }

  static int largest(const Arrays& arrays) {
    double most = 0;
    for (std::size_t i = 0; i < arrays.labels.count(); ++i) most = std::max(most, arrays.labels.number(i));
    if (most >= 1 << 24)
      fail_contents(arrays.labels_path,
                    fmt::format("has a label of {:.0f}; are these labels of classes?", most));
    return static_cast<int>(most);
  }

  std::string fault_of_label(const Arrays& arrays, std::size_t sample) const {
    const double label = arrays.labels.number(sample);
    if (!arrays.has_targets())
      return label >= 0 && label < classes_
                 ? ""
                 : fmt::format("its label is {:.0f}, and 0 to {} are wanted", label, classes_ - 1);
    return fault_of_sample(arrays.labels, DType::Float32, arrays.samples(), sample, "target");
  }

  /// Of a file of so many samples.
  static std::string fault_of_sample(const NpyFile& file, DType type, std::size_t samples, std::size_t sample,
                                     std::string_view what) {
    const std::size_t elements = file.count() / samples;
    return fault_of_elements(file, type, {sample * elements, elements}, what);
  }

  std::vector<std::size_t> usable_of(const Arrays& arrays) const {
    std::vector<std::size_t> usable;
    for (std::size_t i = 0; i < arrays.samples(); ++i) {
      std::string fault = fault_of_label(arrays, i);
      for (const Input& input : arrays.inputs)
        if (fault.empty() && !input.is_pixels())
          fault = fault_of_sample(input.file, input.type, arrays.samples(), i, "element");
      if (fault.empty())
        usable.push_back(i);
      else
        context_.faults->found(fmt::format("{}: sample {}", arrays.inputs[0].path, i), fault);
    }
    return usable;
  }

  std::unique_ptr<Dataset> images(const Arrays& arrays, const SampleShape& shape,
                                  const std::vector<std::size_t>& usable) const {
    const std::vector<std::size_t> order = order_of(shape.input, options_.channels_last);
    ImageDataset::Content content{.shape = shape};
    content.bytes.reserve(usable.size() * order.size());
    for (std::size_t i : usable) {
      const auto sample = arrays.inputs[0].file.elements().subspan(i * order.size(), order.size());
      for (std::size_t k : order) content.bytes.push_back(sample[k]);
      content.labels.push_back(static_cast<std::int32_t>(arrays.labels.number(i)));
    }
    return std::make_unique<ImageDataset>(std::move(content), context_.plan);
  }

  std::unique_ptr<Dataset> numbers(const Arrays& arrays, const SampleShape& shape,
                                   const std::vector<std::size_t>& usable) const {
    Samples samples(shape, usable.size());
    const std::vector<Part> parts = shape.inputs();
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const Input& input = arrays.inputs[p];
      fill(samples.parts[p], input.file, usable, order_of(parts[p].extents, options_.channels_last),
           scale_of(input.file, input.type, context_.plan));
    }
    fill(samples.labels, arrays.labels, usable, order_of({shape.targets()}, false), std::identity());
    return std::make_unique<NumberDataset>(shape, std::move(samples));
  }

  template <class Change>
  static void fill(Elements& elements, const NpyFile& file, const std::vector<std::size_t>& usable,
                   const std::vector<std::size_t>& order, const Change& change) {
    elements.room(0, elements.size()).visit([&]<class T>(std::span<T> room) {
      for (std::size_t i = 0; i < room.size(); ++i)
        room[i] = static_cast<T>(
            change(file.number(usable[i / order.size()] * order.size() + order[i % order.size()])));
    });
  }

  const OpenContext& context_;
  const NpyOptions options_;
  int classes_;
};

/// Where both sets lie in one folder, their files' names say which is which.
Datasets open(const OpenContext& context) {
  const auto options = context.plan.options.read<NpyOptions>();
  Opener opener(context);
  const auto names_set = [](const std::string& name) { return name.find("{set}") != std::string::npos; };
  if (names_set(options.samples) || names_set(options.labels) ||
      std::any_of(options.inputs.begin(), options.inputs.end(), names_set)) {
    const std::string& path = context.plan.path;
    const std::string& test = context.plan.test_path;
    const std::string& validation = context.plan.validation_path;
    Datasets sets{.train = opener.open(path, "train")};
    if (!test.empty() || context.storage.exists(path_of(path, options.labels, "test")))
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
              "NumPy arrays: samples, one after the other, and for each a whole number as its label, or "
              "floating-point numbers as its targets. "
              "Unsigned bytes are pixels, other numbers are taken as they are. `path` holds both "
              "files, or folders train and test (or val) that do.",
          .open = open,
          .options = plan::option_keys<NpyOptions>,
          .by_class = true};
}

}  // namespace taxon::data
