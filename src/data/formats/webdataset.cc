#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>

#include "base/error.h"
#include "data/encoded_images.h"
#include "data/halves.h"
#include "data/tar_shard.h"

namespace taxon::data {
namespace {

struct WebOptions {
  ImageOptions images;
  int classes = 0;
};
template <plan::Like<WebOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit_fields(o.images, visit);
  visit(plan::Field{.key = "classes",
                    .sentence = "Labels are 0 to this less one; 0: to the largest of the training set.",
                    .min = 0,
                    .max = 1 << 24},
        o.classes);
}

bool is_image(std::string_view ending) {
  constexpr std::string_view kEndings[] = {"jpg", "jpeg", "png"};
  return std::find(std::begin(kEndings), std::end(kEndings), ending) != std::end(kEndings);
}

/// The samples of some shards: files of one name up to the first dot of its last part are one sample.
class Shards final : public ImageSource {
 public:
  Shards(const OpenContext& context, const std::string& folder) : storage_(context.storage) {
    for (const std::string& name : storage_.list(folder))
      if (name.ends_with(".tar")) paths_.push_back(folder + "/" + name);
    if (paths_.empty())
      throw Error(ErrorKind::Data, fmt::format("{}: there is no .tar file in this folder", folder),
                  {{}, "read", folder});
    for (std::size_t shard = 0; shard < paths_.size(); ++shard) list(shard, *context.faults);
  }
  std::int64_t size() const override { return std::ssize(samples_); }
  std::int64_t label(std::int64_t index) const override { return at(index).label; }
  std::string name(std::int64_t index) const override {
    return fmt::format("{}: {}", paths_[at(index).shard], at(index).image.name);
  }
  std::vector<std::byte> bytes(std::int64_t index) const override {
    return head(index, std::numeric_limits<std::size_t>::max());
  }
  std::vector<std::byte> head(std::int64_t index, std::size_t most) const override {
    return read_tar(storage_, paths_[at(index).shard], at(index).image, most);
  }
  /// Leaves out samples with other labels; 0: none, and the answer is the largest label and one.
  int require_classes(int classes, FaultLog& faults) {
    if (classes == 0) {
      for (const Sample& sample : samples_) classes = std::max(classes, sample.label + 1);
      return classes;
    }
    std::vector<Sample> kept;
    for (std::int64_t i = 0; i < size(); ++i) {
      if (at(i).label < classes)
        kept.push_back(at(i));
      else
        faults.found(name(i),
                     fmt::format("its label is {}, and 0 to {} are wanted", at(i).label, classes - 1));
    }
    samples_ = std::move(kept);
    return classes;
  }

 private:
  struct Sample {
    std::size_t shard;
    TarEntry image;
    std::int32_t label;
  };
  const Sample& at(std::int64_t index) const { return samples_[static_cast<std::size_t>(index)]; }

  void list(std::size_t shard, FaultLog& faults) {
    struct Parts {
      std::optional<TarEntry> image, label;
    };
    std::vector<std::string> keys;  // in the shard's order
    std::map<std::string, Parts> parts;
    for (TarEntry& entry : list_tar(storage_, paths_[shard], faults)) {
      const std::size_t slash = entry.name.rfind('/'), begin = slash == std::string::npos ? 0 : slash + 1;
      const std::size_t dot = entry.name.find('.', begin);
      if (dot == std::string::npos || dot == begin) continue;
      const std::string key = entry.name.substr(0, dot), ending = entry.name.substr(dot + 1);
      if (!parts.contains(key)) keys.push_back(key);
      Parts& sample = parts[key];
      if (is_image(ending)) sample.image = std::move(entry);
      if (ending == "cls") sample.label = std::move(entry);
    }
    for (const std::string& key : keys) {
      const Parts& sample = parts[key];
      const std::string where = fmt::format("{}: {}", paths_[shard], key);
      if (!sample.image || !sample.label) {
        faults.found(where, sample.image ? "has no label (.cls)" : "has no image (.jpg, .jpeg or .png)");
        continue;
      }
      if (const auto label = read_label(paths_[shard], *sample.label))
        samples_.push_back({shard, *sample.image, *label});
      else
        faults.found(where, "its label (.cls) is no whole number of at least 0");
    }
  }

  std::optional<std::int32_t> read_label(const std::string& path, const TarEntry& entry) const {
    constexpr std::size_t kMost = 32;
    const std::vector<std::byte> bytes = read_tar(storage_, path, entry, kMost);
    std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
      text.remove_suffix(1);
    std::int32_t label = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
    if (error != std::errc() || end != text.data() + text.size() || label < 0 || label >= 1 << 24) return {};
    return label;
  }

  const Storage& storage_;
  std::vector<std::string> paths_;
  std::vector<Sample> samples_;
};

Datasets open(const OpenContext& context) {
  const auto options = context.plan.options.read<WebOptions>();
  const Halves halves = find_folders(context);
  int classes = options.classes;
  std::optional<ImageExtents> extents;
  auto half = [&](const std::string& folder) -> std::unique_ptr<Dataset> {
    if (folder.empty()) return nullptr;
    auto source = std::make_unique<Shards>(context, folder);
    classes = source->require_classes(classes, *context.faults);
    if (!extents) extents = common_extents(*source, options.images, *context.faults);
    return std::make_unique<EncodedImages>(std::move(source), options.images, *extents, classes, context);
  };
  Datasets sets{.train = half(halves.train)};
  sets.test = half(halves.test);
  sets.validation = half(halves.validation);
  return sets;
}

}  // namespace

DatasetRow webdataset() {
  return {.name = "webdataset",
          .sentence =
              "Shards of the WebDataset layout: tar archives, not compressed, with an image (name.jpg, "
              "name.jpeg or name.png) and a label (name.cls, a whole number) for each sample; `path` "
              "holds them, or folders train and test (or val) that do.",
          .open = open,
          .options = plan::option_keys<WebOptions>,
          .by_class = true};
}

}  // namespace taxon::data
