#include "exchange/gathering.h"

#include <algorithm>

#include "exchange/cast.h"
#include "exchange/kernels.h"

namespace taxon::exchange {

Gathering::Gathering(comm::Runtime& runtime, const Setup& setup)
    : runtime_(runtime), setup_(setup), there_(setup.layout->buckets.size()), gathers_(runtime.pending()) {}

bool Gathering::reads(const Bucket& bucket, int segment) const {
  return std::find(bucket.segments.begin(), bucket.segments.end(), segment) != bucket.segments.end();
}

void Gathering::begin(int segment) {
  for (std::size_t b = 0; b < there_.size(); ++b) {
    const Bucket& bucket = setup_.layout->buckets[b];
    if (there_[b] || !reads(bucket, segment)) continue;
    there_[b] = std::make_unique<task::Event>(runtime_.executor(), runtime_.pending());
    gathers_.spawn(gather(&bucket));
  }
}

task::Task<void> Gathering::open(int segment, std::vector<int> ahead) {
  ahead.insert(ahead.begin(), segment);
  for (std::size_t b = 0; b < there_.size(); ++b) {
    const Bucket& bucket = setup_.layout->buckets[b];
    if (std::none_of(ahead.begin(), ahead.end(), [&](int wanted) { return reads(bucket, wanted); }))
      there_[b].reset();
  }
  for (int wanted : ahead) begin(wanted);
  for (std::size_t b = 0; b < there_.size(); ++b) {
    const Bucket& bucket = setup_.layout->buckets[b];
    if (!reads(bucket, segment)) continue;
    auto here = there_[b]->wait("parameters", bucket.name);
    co_await here;
  }
}

task::Task<void> Gathering::close() {
  co_await gathers_.join();
  for (auto& event : there_) event.reset();
}

task::Task<void> Gathering::gather(const Bucket* bucket) {
  const Range place = bucket->gathered, own = setup_.levels->owned(place);
  for (Range piece : kernel_pieces(bucket->kept)) {
    const std::size_t to = own.begin + (piece.begin - bucket->kept.begin);
    tensor::Kernel kernel{"cast", {0, piece.size * 6}, [this, piece, to](tensor::Milestones&) {
                            cast_range(*setup_.master, piece, *setup_.gathered, to);
                          }};
    auto casting = run_kernel(runtime_, "cast", bucket->id.value(), std::move(kernel));
    co_await casting;
  }
  BucketTransfer transfer{.unit = kParametersUnit + static_cast<std::uint32_t>(bucket->id.value()),
                          .range = place,
                          .rows = &bucket->rows};
  co_await setup_.levels->spread(transfer, *setup_.gathered);
  there_[static_cast<std::size_t>(bucket->id.value())]->set();
}

}  // namespace taxon::exchange
