#include "train/sync/sample_weights.h"

#include <algorithm>

namespace taxon::train {

SampleWeights::SampleWeights(const RankGroups& ranks, int workers)
    : workers_(static_cast<std::size_t>(workers)), contributors_{Rank(ranks.position.data)} {
  const exchange::Levels& levels = ranks.levels;
  if (levels.size() > 1) contributors_ = levels.group(0).members();
  if (!ranks.outer) return;
  replica_ = {Rank(ranks.position.data)};
  if (levels.size() > 0) replica_ = levels.group(levels.size() - 1).members();
}

std::int64_t SampleWeights::mean_over(std::int64_t batch) const {
  return replica_.empty() ? batch : std::max<std::int64_t>(1, samples_of(batch, replica_));
}

std::int64_t SampleWeights::samples_of(std::int64_t batch, std::span<const Rank> members) const {
  std::size_t samples = 0;
  for (Rank member : members)
    samples +=
        part({0, static_cast<std::size_t>(batch)}, workers_, static_cast<std::size_t>(member.value())).size;
  return static_cast<std::int64_t>(samples);
}

}  // namespace taxon::train
