#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/runtime.h"
#include "data/dataset.h"
#include "data/sampler.h"

namespace taxon::data {

/// A prepared share of one global batch.
struct Batch {
  std::int64_t epoch = 0;
  std::int64_t first = 0;        // samples consumed before it
  std::int64_t global_size = 0;  // samples of the whole job in this step
  Samples samples;
  std::int64_t targets = 1;  // labels per sample
  std::int64_t size() const { return static_cast<std::int64_t>(samples.labels.size()) / targets; }
};

/// Prepares batches ahead of the step on the device's data stream. Where reading takes long and the stream
/// has several threads, a share is prepared in parts beside each other: twice as many as before whenever a
/// step had to wait. What comes out is the same, however many parts there are.
class Loader {
 public:
  /// Everything referenced outlives the loader. Starts at `consumed` samples and ends when `total` are
  /// reached. `workers` share each batch, and this is number `worker`; shares of others are empty.
  Loader(comm::Runtime& runtime, const Dataset& dataset, Sampler sampler, int prefetch, std::int64_t consumed,
         std::int64_t total, int workers, int worker);
  ~Loader();
  /// The next share in order; the first call starts the prefetch. A batch is never cut at `total`: the last
  /// one may pass it. Throws the cancellation's error. REQUIRES: not at the end.
  task::Task<Batch> next();
  bool at_end() const { return position_ >= total_; }
  /// In which a share is prepared now.
  int parts() const { return parts_; }
  /// Waits for what is being prepared; on every path before destruction.
  task::Task<void> close();

 private:
  struct Prefetch;
  void fill();
  void start(Prefetch& prefetch, std::size_t share);
  std::vector<std::int64_t> draw(const Batch& batch);
  void widen(Duration waited);
  comm::Runtime& runtime_;
  const Dataset& dataset_;
  Sampler sampler_;
  int prefetch_;
  std::int64_t position_;  // of the next batch to hand out
  std::int64_t ahead_;     // of the next batch to prepare
  std::int64_t total_;
  int workers_, worker_;
  int parts_ = 1;
  Instant asked_{};     // when the last batch was asked for
  std::mutex drawing_;  // protects sampler_ where parts of a share run beside each other
  std::deque<std::unique_ptr<Prefetch>> queue_;
};

}  // namespace taxon::data
