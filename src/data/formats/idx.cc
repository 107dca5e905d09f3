#include "data/idx.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "data/image_dataset.h"
#include "data/storage_errors.h"

namespace taxon::data {
namespace {

constexpr int kClasses = 10;  // of every member of the MNIST family
constexpr const char* kImages = "-images-idx3-ubyte";
constexpr const char* kLabels = "-labels-idx1-ubyte";

/// The file as it is there, gzipped or not; empty: it is not.
std::string look_for(const Storage& storage, const std::string& plain) {
  for (const std::string& path : {plain, plain + ".gz"})
    if (storage.exists(path)) return path;
  return {};
}

std::string find(const Storage& storage, const std::string& folder, const std::string& name) {
  const std::string plain = folder + "/" + name, found = look_for(storage, plain);
  if (!found.empty()) return found;
  storage.list(folder);  // throws if it may not be looked into
  fail_contents(
      plain,
      "there is no such file, with or without .gz; Fashion-MNIST comes with Debian's package "
      "dataset-fashion-mnist (apt-get install dataset-fashion-mnist), for other data set data.path to the "
      "folder of the four IDX files");
}

/// Leaves out the samples whose labels there are not.
void drop_faulty(const std::string& labels_path, FaultLog& faults, ImageDataset::Content& content) {
  const auto pixels = static_cast<std::ptrdiff_t>(content.shape.input[1] * content.shape.input[2]);
  auto image = content.bytes.begin() + static_cast<std::ptrdiff_t>(content.offset);
  std::size_t kept = 0;
  auto room = image;
  for (std::size_t i = 0; i < content.labels.size(); ++i, image += pixels) {
    const std::int32_t label = content.labels[i];
    if (label >= kClasses) {
      faults.found(fmt::format("{}: sample {}", labels_path, i),
                   fmt::format("its label is {}, and 0 to {} are wanted", label, kClasses - 1));
      continue;
    }
    if (room != image) std::copy(image, image + pixels, room);
    room += pixels;
    content.labels[kept++] = label;
  }
  content.bytes.erase(room, content.bytes.end());
  content.labels.resize(kept);
}

struct Half {
  std::string path;  // of the images
  ImageDataset::Content content;
};

Half read_half(const OpenContext& context, const std::string& folder, const std::string& name) {
  const Storage& storage = context.storage;
  std::string path = find(storage, folder, name + kImages);
  std::string labels_path = find(storage, folder, name + kLabels);
  IdxFile images = parse_idx(storage.read(path), 3, path);
  const IdxFile labels = parse_idx(storage.read(labels_path), 1, labels_path);
  if (images.extents[0] != labels.extents[0])
    fail_contents(labels_path, fmt::format("has {} labels, but {} has {} images", labels.extents[0], path,
                                           images.extents[0]));
  SampleShape shape{{1, images.extents[1], images.extents[2]}, kClasses};
  Half half{path, {shape, std::move(images.bytes), images.header, {}}};
  for (std::byte label : labels.elements())
    half.content.labels.push_back(std::to_integer<std::int32_t>(label));
  drop_faulty(labels_path, *context.faults, half.content);
  return half;
}

/// Whether nothing speaks of a test set.
bool has_no_test(const OpenContext& context) {
  const std::string plain = context.plan.path + "/t10k";
  return context.plan.test_path.empty() && look_for(context.storage, plain + kImages).empty() &&
         look_for(context.storage, plain + kLabels).empty();
}

Datasets open(const OpenContext& context) {
  const plan::DataPlan& plan = context.plan;
  auto in_memory = [&](Half half) { return std::make_unique<ImageDataset>(std::move(half.content), plan); };
  Half train = read_half(context, plan.path, "train");
  Datasets sets;
  if (!has_no_test(context)) {
    Half test = read_half(context, plan.test_path.empty() ? plan.path : plan.test_path, "t10k");
    const auto& a = train.content.shape.input;
    const auto& b = test.content.shape.input;
    if (a != b)
      fail_contents(test.path, fmt::format("has images of {}x{} pixels, but {} of {}x{}", b[1], b[2],
                                           train.path, a[1], a[2]));
    sets.test = in_memory(std::move(test));
  }
  sets.train = in_memory(std::move(train));
  if (!plan.validation_path.empty())
    sets.validation = in_memory(read_half(context, plan.validation_path, "train"));
  return sets;
}

}  // namespace

DatasetRow idx() {
  return {.name = "idx",
          .sentence =
              "The four IDX files of the MNIST family (MNIST, Fashion-MNIST, KMNIST), gzipped or not, "
              "in the folder `path`; ten classes.",
          .open = open};
}

}  // namespace taxon::data
