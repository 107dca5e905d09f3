#include <algorithm>

#include "base/rng.h"
#include "data/image_dataset.h"

namespace taxon::data {
namespace {

constexpr int kClasses = 10;
constexpr std::int64_t kTrain = 6000, kTest = 1000;
constexpr std::size_t kPixels = 28 * 28;
// A fixed seed: the data are the same whatever the run's seed is, like a file's.
constexpr std::uint64_t kSeed = 28;

/// A class is a random picture around mid-grey.
std::vector<int> centre(int label) {
  Rng rng(kSeed, "synthetic centre", static_cast<std::uint64_t>(label));
  std::vector<int> pixels(kPixels);
  for (int& pixel : pixels) pixel = 104 + static_cast<int>(rng.below(49));
  return pixels;
}

/// The sum of four uniform bytes, near enough to a Gaussian of deviation 37 around 0.
int noise(std::uint32_t bits) {
  int sum = 0;
  for (int shift = 0; shift < 32; shift += 8) sum += static_cast<int>(bits >> shift & 0xff);
  return (sum - 510) / 4;
}

ImageDataset::Content make(std::string_view purpose, std::int64_t size) {
  std::vector<std::vector<int>> centres;
  for (int label = 0; label < kClasses; ++label) centres.push_back(centre(label));
  ImageDataset::Content content{{{1, 28, 28}, kClasses}, {}, 0, {}};
  content.bytes.reserve(static_cast<std::size_t>(size) * kPixels);
  for (std::int64_t i = 0; i < size; ++i) {
    Rng rng(kSeed, purpose, static_cast<std::uint64_t>(i));
    auto label = rng.below(kClasses);
    content.labels.push_back(static_cast<std::int32_t>(label));
    for (std::size_t k = 0; k < kPixels; k += 2) {
      std::uint64_t bits = rng();
      for (std::size_t half = 0; half < 2; ++half) {
        int pixel = centres[label][k + half] + noise(static_cast<std::uint32_t>(bits >> (32 * half)));
        content.bytes.push_back(static_cast<std::byte>(std::clamp(pixel, 0, 255)));
      }
    }
  }
  return content;
}

Datasets open(const OpenContext& context) {
  const plan::DataPlan& plan = context.plan;
  auto size = [](std::int64_t limit, std::int64_t standard) { return limit > 0 ? limit : standard; };
  return {std::make_unique<ImageDataset>(make("synthetic train", size(plan.train_limit, kTrain)), plan),
          std::make_unique<ImageDataset>(make("synthetic test", size(plan.test_limit, kTest)), plan)};
}

}  // namespace

DatasetRow synthetic() {
  return {.name = "synthetic",
          .sentence =
              "Reads nothing: ten random pictures of 28x28 pixels, each sample one of them under strong "
              "noise, 6000 to train and 1000 to test unless limits say otherwise; the same on every "
              "machine and for every seed.",
          .open = open,
          .has_path = false};
}

}  // namespace taxon::data
