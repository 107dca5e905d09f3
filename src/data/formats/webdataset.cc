#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>

#include "base/error.h"
#include "data/encoded_samples.h"
#include "data/halves.h"
#include "data/tar_shard.h"
#include "data/typed_name.h"

namespace taxon::data {
namespace {

struct WebOptions {
  ImageOptions images;
  std::vector<std::string> inputs;
  int classes = 0;
};
template <plan::Like<WebOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit_fields(o.images, visit);
  visit(
      plan::Field{.key = "inputs",
                  .sentence =
                      "Files of a sample in place of its image, one for each tensor, in the order in which "
                      "a model takes them: what follows the first dot of a file's name, or several such "
                      "endings with semicolons between, of which a sample has one. They end in jpg, jpeg or "
                      "png for images, in npy for NumPy arrays; float32:, int64: or bool: before them says "
                      "as what an array is taken, float32 unless given."},
      o.inputs);
  visit(plan::Field{.key = "classes",
                    .sentence = "Labels are 0 to this less one; 0: to the largest of the training set.",
                    .min = 0,
                    .max = 1 << 24},
        o.classes);
}

/// Which files of samples are one input of a model.
struct WebInput {
  DType type = DType::Float32;
  bool are_images = false;
  std::vector<std::string> endings;
  bool has(std::string_view ending) const {
    return std::find(endings.begin(), endings.end(), ending) != endings.end();
  }
};

bool is_of(std::string_view ending, std::initializer_list<std::string_view> kinds) {
  return std::find(kinds.begin(), kinds.end(), ending.substr(ending.rfind('.') + 1)) != kinds.end();
}

/// "int64:words.npy", "jpg;png".
WebInput parse_input(const std::string& text) {
  const auto refuse = [&](std::string_view why) {
    throw Error(ErrorKind::Usage, fmt::format("data.inputs: \"{}\" {}", text, why));
  };
  auto [type, rest] = typed(text);
  WebInput input{.type = type, .endings = {}};
  for (std::size_t end = 0; end != std::string_view::npos;
       rest.remove_prefix(std::min(end + 1, rest.size()))) {
    end = rest.find(';');
    input.endings.emplace_back(rest.substr(0, end));
  }
  const auto all_of = [&](std::initializer_list<std::string_view> kinds) {
    return std::all_of(input.endings.begin(), input.endings.end(),
                       [&](const std::string& ending) { return is_of(ending, kinds); });
  };
  input.are_images = all_of({"jpg", "jpeg", "png"});
  if (!input.are_images && !all_of({"npy"}))
    refuse("names neither images (jpg, jpeg, png) nor arrays (npy) alone");
  if (input.are_images && type != DType::Float32) refuse("are images, which are float32");
  return input;
}

/// The samples of some shards: files of one name up to the first dot of its last part are one sample.
class Shards final : public SampleFiles {
 public:
  Shards(const OpenContext& context, const std::vector<WebInput>& inputs, const std::string& folder)
      : storage_(context.storage) {
    for (const std::string& name : storage_.list(folder))
      if (name.ends_with(".tar")) paths_.push_back(folder + "/" + name);
    if (paths_.empty())
      throw Error(ErrorKind::Data, fmt::format("{}: there is no .tar file in this folder", folder),
                  {{}, "read", folder});
    for (std::size_t shard = 0; shard < paths_.size(); ++shard) list(shard, inputs, *context.faults);
  }
  std::int64_t size() const override { return std::ssize(samples_); }
  std::int64_t label(std::int64_t index) const override { return at(index).label; }
  std::string name(std::int64_t index, std::size_t input) const override {
    return fmt::format("{}: {}", paths_[at(index).shard], at(index).files[input].name);
  }
  std::vector<std::byte> bytes(std::int64_t index, std::size_t input) const override {
    return head(index, input, std::numeric_limits<std::size_t>::max());
  }
  std::vector<std::byte> head(std::int64_t index, std::size_t input, std::size_t most) const override {
    return read_tar(storage_, paths_[at(index).shard], at(index).files[input], most);
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
        faults.found(name(i, 0),
                     fmt::format("its label is {}, and 0 to {} are wanted", at(i).label, classes - 1));
    }
    samples_ = std::move(kept);
    return classes;
  }

 private:
  struct Sample {
    std::size_t shard;
    std::vector<TarEntry> files;  // one for each input
    std::int32_t label;
  };
  const Sample& at(std::int64_t index) const { return samples_[static_cast<std::size_t>(index)]; }

  void list(std::size_t shard, const std::vector<WebInput>& inputs, FaultLog& faults) {
    struct Parts {
      std::string key;
      std::map<std::size_t, TarEntry> files;  // by input
      std::optional<TarEntry> label;
    };
    std::vector<Parts> parts;                   // in the shard's order
    std::map<std::string, std::size_t> newest;  // by key: shards that are joined may use one again
    for (const TarEntry& entry : list_tar(storage_, paths_[shard], faults)) {
      const std::size_t slash = entry.name.rfind('/'), begin = slash == std::string::npos ? 0 : slash + 1;
      const std::size_t dot = entry.name.find('.', begin);
      if (dot == std::string::npos || dot == begin) continue;
      const std::string key = entry.name.substr(0, dot), ending = entry.name.substr(dot + 1);
      const auto has_one = [&](const Parts& sample) {
        return (ending == "cls" && sample.label) ||
               std::any_of(sample.files.begin(), sample.files.end(),
                           [&](const auto& file) { return inputs[file.first].has(ending); });
      };
      const auto [place, is_first] = newest.try_emplace(key, parts.size());
      if (!is_first && has_one(parts[place->second])) place->second = parts.size();
      if (place->second == parts.size()) parts.push_back({key, {}, {}});
      Parts& sample = parts[place->second];
      for (std::size_t i = 0; i < inputs.size(); ++i)
        if (inputs[i].has(ending)) sample.files[i] = entry;
      if (ending == "cls") sample.label = entry;
    }
    for (const Parts& sample : parts) {
      const std::string fault = add(shard, inputs, sample.files, sample.label);
      if (!fault.empty()) faults.found(fmt::format("{}: {}", paths_[shard], sample.key), fault);
    }
  }

  /// What is wrong with these files of a sample; empty: it is one.
  std::string add(std::size_t shard, const std::vector<WebInput>& inputs,
                  const std::map<std::size_t, TarEntry>& files, const std::optional<TarEntry>& label) {
    Sample sample{shard, {}, 0};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto file = files.find(i);
      if (file == files.end())
        return fmt::format("has no {} (.{})", inputs[i].are_images ? "image" : "array",
                           fmt::join(inputs[i].endings, ", ."));
      sample.files.push_back(file->second);
    }
    if (!label) return "has no label (.cls)";
    std::optional<std::int32_t> number;
    try {
      number = read_label(paths_[shard], *label);
    } catch (const Error& error) {  // the shard may end in it
      if (error.kind() != ErrorKind::Data) throw;
      return error.what();
    }
    if (!number) return "its label (.cls) is no whole number of at least 0";
    sample.label = *number;
    samples_.push_back(std::move(sample));
    return {};
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
  std::vector<WebInput> inputs;
  if (options.inputs.empty()) inputs.push_back(parse_input("jpg;jpeg;png"));
  for (const std::string& text : options.inputs) inputs.push_back(parse_input(text));
  FileDecoders decoders;  // of the training set
  auto half = [&](const std::string& folder) -> std::unique_ptr<Dataset> {
    if (folder.empty()) return nullptr;
    auto source = std::make_unique<Shards>(context, inputs, folder);
    classes = source->require_classes(classes, *context.faults);
    for (std::size_t i = decoders.size(); i < inputs.size(); ++i)
      decoders.push_back(inputs[i].are_images ? image_decoder(*source, i, options.images, context)
                                              : array_decoder(*source, i, inputs[i].type, context));
    return std::make_unique<EncodedSamples>(std::move(source), decoders, options.images.check, classes,
                                            context);
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
              "name.jpeg or name.png), or the files that `inputs` says, and a label (name.cls, a whole "
              "number) for each sample; `path` holds them, or folders train and test (or val) that do.",
          .open = open,
          .options = plan::option_keys<WebOptions>,
          .by_class = true};
}

}  // namespace taxon::data
