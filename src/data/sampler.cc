#include "data/sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "base/view.h"

namespace taxon::data {

Sampler::Sampler(std::uint64_t seed, std::int64_t dataset_size, std::int64_t global_batch)
    : seed_(seed), size_(dataset_size), global_batch_(global_batch) {
  TAXON_CHECK(size_ > 0 && global_batch_ > 0, "size=", size_, " batch=", global_batch_);
}

std::int64_t Sampler::steps_per_epoch() const { return (size_ + global_batch_ - 1) / global_batch_; }

Sampler::Position Sampler::position_of(std::int64_t consumed) const {
  TAXON_CHECK(consumed >= 0, "consumed=", consumed);
  std::int64_t first = consumed % size_;
  return {consumed / size_, first, std::min(global_batch_, size_ - first)};
}

Sampler::Batch Sampler::at(std::int64_t consumed, int world_size, int rank) {
  TAXON_CHECK(rank >= 0 && rank < world_size, "rank=", rank, " of ", world_size);
  Position place = this->position_of(consumed);
  Range whole{static_cast<std::size_t>(place.first), static_cast<std::size_t>(place.size)};
  Range share = part(whole, static_cast<std::size_t>(world_size), static_cast<std::size_t>(rank));
  auto begin = order(place.epoch).begin() + static_cast<std::ptrdiff_t>(share.begin);
  return {place.epoch, place.size, {begin, begin + static_cast<std::ptrdiff_t>(share.size)}};
}

const std::vector<std::int64_t>& Sampler::order(std::int64_t epoch) {
  auto& [held, indices] = cached_[static_cast<std::size_t>(epoch) % cached_.size()];
  if (epoch == held) return indices;
  indices.resize(static_cast<std::size_t>(size_));
  std::iota(indices.begin(), indices.end(), 0);
  Rng rng(seed_, "epoch order", static_cast<std::uint64_t>(epoch));
  for (std::size_t i = indices.size(); i > 1; --i) std::swap(indices[i - 1], indices[rng.below(i)]);
  held = epoch;
  return indices;
}

}  // namespace taxon::data
