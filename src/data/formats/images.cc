#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "data/encoded_samples.h"
#include "data/halves.h"

namespace taxon::data {
namespace {

/// The files of one folder's sub-folders: the index of one is its label.
class ImageFolder final : public SampleFiles {
 public:
  /// `classes`: those of the training set.
  ImageFolder(const OpenContext& context, std::string folder, const std::vector<std::string>& classes)
      : storage_(context.storage), folder_(std::move(folder)), classes_(classes) {
    for (const std::string& name : full_folders(storage_, folder_)) {
      const auto found = std::lower_bound(classes.begin(), classes.end(), name);
      if (found == classes.end() || *found != name) {
        context.faults->found(folder_ + "/" + name, "is a class that the training set does not have");
        continue;
      }
      for (std::string& file : storage_.list(folder_ + "/" + name))
        if (!file.starts_with('.'))
          files_.push_back({static_cast<std::int32_t>(found - classes.begin()), std::move(file)});
    }
  }
  std::int64_t size() const override { return std::ssize(files_); }
  std::int64_t label(std::int64_t index) const override { return at(index).label; }
  std::string name(std::int64_t index, std::size_t) const override {
    return fmt::format("{}/{}/{}", folder_, classes_[static_cast<std::size_t>(at(index).label)],
                       at(index).name);
  }
  std::vector<std::byte> bytes(std::int64_t index, std::size_t) const override {
    return storage_.read(name(index, 0));
  }
  std::vector<std::byte> head(std::int64_t index, std::size_t, std::size_t most) const override {
    const std::string path = name(index, 0);
    return storage_.read_range(path, 0, std::min<std::uint64_t>(most, storage_.size(path)));
  }

 private:
  struct File {
    std::int32_t label;
    std::string name;
  };
  const File& at(std::int64_t index) const { return files_[static_cast<std::size_t>(index)]; }

  const Storage& storage_;
  const std::string folder_;
  const std::vector<std::string> classes_;
  std::vector<File> files_;
};

Datasets open(const OpenContext& context) {
  const auto options = context.plan.options.read<ImageOptions>();
  const Halves halves = find_class_folders(context);
  const std::vector<std::string> classes = full_folders(context.storage, halves.train);
  if (classes.size() < 2)
    throw Error(ErrorKind::Data,
                fmt::format("{}: has {} sub-folder{} with images in it, and one for each class is wanted",
                            halves.train, classes.size(), classes.size() == 1 ? "" : "s"),
                {{}, "read", halves.train});
  FileDecoders decoders;
  auto half = [&](const std::string& folder) -> std::unique_ptr<Dataset> {
    if (folder.empty()) return nullptr;
    auto source = std::make_unique<ImageFolder>(context, folder, classes);
    if (decoders.empty()) decoders = {image_decoder(*source, 0, options, context)};
    return std::make_unique<EncodedSamples>(std::move(source), decoders, options.check,
                                            static_cast<int>(classes.size()), context);
  };
  Datasets sets{.train = half(halves.train)};
  sets.test = half(halves.test);
  sets.validation = half(halves.validation);
  return sets;
}

}  // namespace

DatasetRow images() {
  return {.name = "images",
          .sentence =
              "JPEG and PNG files in one sub-folder for each class; `path` holds them, or folders "
              "train and test (or val) that do.",
          .open = open,
          .options = plan::option_keys<ImageOptions>,
          .by_class = true};
}

}  // namespace taxon::data
