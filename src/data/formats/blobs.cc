#include "data/blobs.h"

namespace taxon::data {
namespace {

constexpr std::int64_t kTrain = 400, kTest = 100;

Datasets open(const OpenContext& context) {
  auto size = [](std::int64_t limit, std::int64_t standard) { return limit > 0 ? limit : standard; };
  return {std::make_unique<Blobs>(BlobOptions{.size = size(context.plan.train_limit, kTrain), .seed = 1}),
          std::make_unique<Blobs>(BlobOptions{.size = size(context.plan.test_limit, kTest), .seed = 2})};
}

}  // namespace

DatasetRow blobs() {
  return {.name = "blobs",
          .sentence =
              "Reads nothing: points of 8 numbers around one centre for each of 4 classes, 400 to train "
              "and 100 to test unless limits say otherwise: for simulations with model perceptron.",
          .open = open,
          .has_path = false};
}

}  // namespace taxon::data
