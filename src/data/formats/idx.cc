#include "data/idx.h"

#include <fmt/format.h>

#include "base/error.h"
#include "data/image_dataset.h"

namespace taxon::data {
namespace {

constexpr int kClasses = 10;  // of every member of the MNIST family

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::Data, fmt::format("{}: {}", path, why), {{}, "read", path});
}

/// The file as it is there, gzipped or not.
std::string find(const Storage& storage, const std::string& folder, const std::string& name) {
  std::string plain = folder + "/" + name;
  for (const std::string& path : {plain, plain + ".gz"})
    if (storage.exists(path)) return path;
  fail(plain,
       "there is no such file, with or without .gz; Fashion-MNIST comes with Debian's package "
       "dataset-fashion-mnist (apt-get install dataset-fashion-mnist), for other data set data.path to the "
       "folder of the four IDX files");
}

std::vector<std::int32_t> read_labels(const Storage& storage, const std::string& path) {
  IdxFile file = parse_idx(storage.read(path), 1, path);
  std::vector<std::int32_t> labels;
  labels.reserve(file.elements().size());
  for (std::byte element : file.elements()) {
    auto label = std::to_integer<std::uint8_t>(element);
    if (label >= kClasses)
      fail(path, fmt::format("the label of sample {} is {}, and 0 to {} are wanted", labels.size(), label,
                             kClasses - 1));
    labels.push_back(label);
  }
  return labels;
}

struct Half {
  std::string path;  // of the images
  ImageDataset::Content content;
};

Half read_half(const Storage& storage, const std::string& folder, const std::string& name) {
  std::string path = find(storage, folder, name + "-images-idx3-ubyte");
  std::string labels_path = find(storage, folder, name + "-labels-idx1-ubyte");
  IdxFile images = parse_idx(storage.read(path), 3, path);
  auto labels = read_labels(storage, labels_path);
  if (images.extents[0] != static_cast<std::int64_t>(labels.size()))
    fail(labels_path,
         fmt::format("has {} labels, but {} has {} images", labels.size(), path, images.extents[0]));
  SampleShape shape{{1, images.extents[1], images.extents[2]}, kClasses};
  return {path, {shape, std::move(images.bytes), images.header, std::move(labels)}};
}

Datasets open(const OpenContext& context) {
  const plan::DataPlan& plan = context.plan;
  Half train = read_half(context.storage, plan.path, "train");
  Half test = read_half(context.storage, plan.test_path.empty() ? plan.path : plan.test_path, "t10k");
  const auto& a = train.content.shape.input;
  const auto& b = test.content.shape.input;
  if (a != b)
    fail(test.path,
         fmt::format("has images of {}x{} pixels, but {} of {}x{}", b[1], b[2], train.path, a[1], a[2]));
  Datasets sets{std::make_unique<ImageDataset>(std::move(train.content), plan),
                std::make_unique<ImageDataset>(std::move(test.content), plan)};
  if (!plan.validation_path.empty())
    sets.validation = std::make_unique<ImageDataset>(
        read_half(context.storage, plan.validation_path, "train").content, plan);
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
