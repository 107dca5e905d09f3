#include "model/progress.h"

#include <algorithm>

namespace taxon::model {
namespace {

Range overlap(Range a, Range b) {
  std::size_t begin = std::max(a.begin, b.begin), end = std::min(a.end(), b.end());
  return {begin, end > begin ? end - begin : 0};
}

/// Calls visit(bucket, elements in common) for every bucket that overlaps `elements`.
template <class Visit>
void for_each_overlap(const std::vector<Range>& buckets, Range elements, const Visit& visit) {
  auto first = std::partition_point(buckets.begin(), buckets.end(),
                                    [&](Range bucket) { return bucket.end() <= elements.begin; });
  for (auto bucket = first; bucket != buckets.end() && bucket->begin < elements.end(); ++bucket)
    visit(static_cast<std::size_t>(bucket - buckets.begin()), overlap(*bucket, elements).size);
}

}  // namespace

Progress::Progress(const Binding& binding) : sizes_(binding.buckets.size(), 0) {
  for (const BucketRange& bucket : binding.buckets) buckets_.push_back(bucket.weights);
  for (const tensor::Slot& slot : binding.layout->slots())
    for_each_overlap(buckets_, slot.range, [this](std::size_t b, std::size_t size) { sizes_[b] += size; });
}

void Progress::begin() { missing_ = sizes_; }

void Progress::completed(Range elements, tensor::Milestones& marks) {
  for_each_overlap(buckets_, elements, [&](std::size_t b, std::size_t size) {
    TAXON_CHECK(missing_[b] >= size, "bucket ", b, " lacks ", missing_[b], " elements, not ", size);
    missing_[b] -= size;
    if (size > 0 && missing_[b] == 0) marks.reached(static_cast<int>(b));
  });
}

void Progress::finish(tensor::Milestones& marks) const {
  for (std::size_t b = 0; b < sizes_.size(); ++b)
    if (sizes_[b] == 0) marks.reached(static_cast<int>(b));
}

}  // namespace taxon::model
