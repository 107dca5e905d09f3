#include <fmt/format.h>

#include "base/error.h"
#include "data/image_dataset.h"

namespace taxon::data {

enum class CifarLabels : std::uint8_t { Fine, Coarse };

}  // namespace taxon::data

namespace taxon::plan {

template <>
struct Words<data::CifarLabels> {
  static constexpr std::string_view all[] = {"fine", "coarse"};
};

}  // namespace taxon::plan

namespace taxon::data {
namespace {

constexpr std::size_t kPixels = 3 * 32 * 32;

struct CifarOptions {
  CifarLabels labels = CifarLabels::Fine;
};
template <plan::Like<CifarOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(plan::Field{.key = "labels", .sentence = "Of CIFAR-100: its 100 classes, or their 20 groups."},
        o.labels);
}

/// What differs between the two (https://www.cs.toronto.edu/~kriz/cifar.html, binary versions): a record is
/// so many labels and the pixels, channel by channel.
struct Variant {
  std::size_t labels = 1;  // bytes before the pixels
  std::size_t used = 0;    // which of them
  int classes = 10;
  std::vector<std::string> train, test;  // names of files
};

Variant cifar_10() {
  Variant variant{.test = {"test_batch.bin"}};
  for (int batch = 1; batch <= 5; ++batch) variant.train.push_back(fmt::format("data_batch_{}.bin", batch));
  return variant;
}

Variant cifar_100(CifarLabels labels) {
  const bool fine = labels == CifarLabels::Fine;
  return {.labels = 2,
          .used = fine ? std::size_t{1} : 0,
          .classes = fine ? 100 : 20,
          .train = {"train.bin"},
          .test = {"test.bin"}};
}

void read_file(const OpenContext& context, const Variant& variant, const std::string& path,
               ImageDataset::Content& content) {
  const std::vector<std::byte> bytes = context.storage.read(path);
  const std::size_t record = variant.labels + kPixels, records = bytes.size() / record;
  if (bytes.size() % record != 0 || records == 0)
    context.faults->found(
        fmt::format("{}: record {}", path, records),
        fmt::format("is cut short: the file has {} bytes, and a record {}", bytes.size(), record));
  for (std::size_t r = 0; r < records; ++r) {
    const auto one = std::span(bytes).subspan(r * record, record);
    const auto label = std::to_integer<std::int32_t>(one[variant.used]);
    if (label >= variant.classes) {
      context.faults->found(
          fmt::format("{}: record {}", path, r),
          fmt::format("its label is {}, and 0 to {} are wanted", label, variant.classes - 1));
      continue;
    }
    content.labels.push_back(label);
    content.bytes.insert(content.bytes.end(), one.begin() + static_cast<std::ptrdiff_t>(variant.labels),
                         one.end());
  }
}

std::unique_ptr<Dataset> read_set(const OpenContext& context, const Variant& variant,
                                  const std::string& folder, const std::vector<std::string>& names) {
  ImageDataset::Content content{.shape = {{3, 32, 32}, variant.classes}};
  for (const std::string& name : names) read_file(context, variant, folder + "/" + name, content);
  return std::make_unique<ImageDataset>(std::move(content), context.plan);
}

Datasets open(const OpenContext& context) {
  const plan::DataPlan& plan = context.plan;
  const auto options = plan.options.read<CifarOptions>();
  const bool is_100 = context.storage.exists(plan.path + "/train.bin");
  const Variant variant = is_100 ? cifar_100(options.labels) : cifar_10();
  if (!is_100 && !context.storage.exists(plan.path + "/" + variant.train.front())) {
    context.storage.list(plan.path);  // throws if it may not be looked into
    throw Error(
        ErrorKind::Data,
        fmt::format("{}: there is neither data_batch_1.bin (CIFAR-10) nor train.bin (CIFAR-100) in this "
                    "folder; the binary version is wanted",
                    plan.path),
        {{}, "read", plan.path});
  }
  Datasets sets{.train = read_set(context, variant, plan.path, variant.train)};
  if (!plan.test_path.empty() || context.storage.exists(plan.path + "/" + variant.test.front()))
    sets.test = read_set(context, variant, plan.test_path.empty() ? plan.path : plan.test_path, variant.test);
  if (!plan.validation_path.empty())
    sets.validation = read_set(context, variant, plan.validation_path, variant.train);
  return sets;
}

}  // namespace

DatasetRow cifar() {
  return {.name = "cifar",
          .sentence =
              "The binary files of CIFAR-10 (data_batch_1.bin to 5, test_batch.bin) or CIFAR-100 "
              "(train.bin, test.bin) in the folder `path`: images of 3 x 32 x 32.",
          .open = open,
          .options = plan::option_keys<CifarOptions>};
}

}  // namespace taxon::data
