#include "data/blobs.h"

#include <algorithm>

#include "base/check.h"
#include "base/rng.h"

namespace taxon::data {
namespace {

constexpr std::uint64_t kCentreSeed = 7;

}  // namespace

Blobs::Blobs(const BlobOptions& options) : shape_{{options.inputs}, options.classes} {
  Rng centre_rng(kCentreSeed, "blob centres"), rng(options.seed, "blob samples");
  std::vector<double> centres(static_cast<std::size_t>(options.inputs * options.classes));
  for (double& value : centres) value = centre_rng.uniform() * 2 - 1;
  for (std::int64_t n = 0; n < options.size; ++n) {
    auto label = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(options.classes)));
    labels_.push_back(label);
    for (std::int64_t d = 0; d < options.inputs; ++d)
      inputs_.push_back(static_cast<float>(centres[static_cast<std::size_t>(label * options.inputs + d)] +
                                           rng.uniform() - 0.5));
  }
}

void Blobs::read(std::span<const std::int64_t> indices, std::span<float> inputs,
                 std::span<std::int64_t> labels) const {
  auto width = static_cast<std::size_t>(shape_.elements());
  TAXON_CHECK(inputs.size() == indices.size() * width && labels.size() == indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    TAXON_CHECK(indices[i] >= 0 && indices[i] < size(), "index ", indices[i], " of ", size());
    auto index = static_cast<std::size_t>(indices[i]);
    std::copy_n(inputs_.begin() + static_cast<std::ptrdiff_t>(index * width), width,
                inputs.begin() + static_cast<std::ptrdiff_t>(i * width));
    labels[i] = labels_[index];
  }
}

}  // namespace taxon::data
