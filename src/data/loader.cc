#include "data/loader.h"

#include <algorithm>

#include "base/check.h"

namespace taxon::data {

/// A batch in the making: the kernels write into it until the last of them ended.
struct Loader::Prefetch {
  Batch batch;
  std::deque<tensor::KernelHandle> jobs;
};

Loader::Loader(comm::Runtime& runtime, const Dataset& dataset, Sampler sampler, int prefetch,
               std::int64_t consumed, std::int64_t total, int workers, int worker)
    : runtime_(runtime),
      dataset_(dataset),
      sampler_(std::move(sampler)),
      prefetch_(prefetch),
      position_(consumed),
      ahead_(consumed),
      total_(total),
      workers_(workers),
      worker_(worker) {
  TAXON_CHECK(prefetch_ > 0, "prefetch=", prefetch_);
}

Loader::~Loader() = default;  // each job checks that it ended

void Loader::fill() {
  while (queue_.size() < static_cast<std::size_t>(prefetch_) && ahead_ < total_) {
    Sampler::Position place = sampler_.position_of(ahead_);
    std::size_t share = 0;
    if (worker_ < workers_)
      share = part({0, static_cast<std::size_t>(place.size)}, static_cast<std::size_t>(workers_),
                   static_cast<std::size_t>(worker_))
                  .size;
    auto prefetch = std::make_unique<Prefetch>();
    prefetch->batch = {.epoch = place.epoch,
                       .first = ahead_,
                       .global_size = place.size,
                       .samples = Samples(dataset_.shape(), 0),
                       .targets = dataset_.shape().targets()};
    // Sizes are decided here, not by the kernel: the virtual world skips bodies.
    prefetch->batch.samples.labels.resize(share * static_cast<std::size_t>(prefetch->batch.targets));
    start(*prefetch, share);
    queue_.push_back(std::move(prefetch));
    ahead_ += place.size;
  }
}

void Loader::start(Prefetch& prefetch, std::size_t share) {
  const auto parts = static_cast<std::size_t>(parts_);
  const auto make_room = [this, share, samples = &prefetch.batch.samples] {
    *samples = Samples(dataset_.shape(), share);
  };
  // One part makes room itself, on the thread that fills it.
  if (parts > 1) make_room();
  for (std::size_t p = 0; p < parts; ++p) {
    const Range mine = part({0, share}, parts, p);
    tensor::Kernel kernel;
    kernel.name = "read batch";
    kernel.cost = dataset_.cost(static_cast<std::int64_t>(mine.size));
    kernel.body = [this, mine, share, parts, make_room, batch = &prefetch.batch](tensor::Milestones&) {
      if (share == 0) return;
      const std::vector<std::int64_t> drawn = draw(*batch);
      if (parts == 1) make_room();
      dataset_.read_parts(batch->epoch, std::span(drawn).subspan(mine.begin, mine.size),
                          batch->samples.rooms(dataset_.shape(), mine));
    };
    prefetch.jobs.emplace_back(runtime_.device, runtime_.pending(), tensor::Stream::Data, std::move(kernel));
  }
}

/// On a thread of the data stream.
std::vector<std::int64_t> Loader::draw(const Batch& batch) {
  std::lock_guard lock(drawing_);
  return sampler_.at(batch.first, workers_, worker_).indices;
}

/// More parts for the batches that are prepared from now on, if the step waited for this one.
void Loader::widen(Duration waited) {
  constexpr int kShareOfStep = 50;  // of a step's time: what may be waited without anything being done
  const Instant now = runtime_.executor().now();
  const Duration step = now - asked_;
  const bool is_first = asked_ == Instant{};
  asked_ = now;
  const int most = runtime_.device.threads(tensor::Stream::Data);
  if (is_first || !dataset_.is_slow() || waited * kShareOfStep <= step) return;
  parts_ = std::min(2 * parts_, most);
}

task::Task<Batch> Loader::next() {
  TAXON_CHECK(!at_end(), "the loader is at its end");
  if (auto why = runtime_.pending().cancelled()) std::rethrow_exception(why);
  fill();
  Prefetch& front = *queue_.front();
  Instant begin = runtime_.executor().now();
  for (tensor::KernelHandle& job : front.jobs) {
    co_await job.finished();
  }
  if (auto why = runtime_.pending().cancelled()) std::rethrow_exception(why);
  Batch batch = std::move(front.batch);
  queue_.pop_front();
  position_ += batch.global_size;
  comm::Span waited{"data", "wait for batch", -1, batch.samples.bytes(), begin, runtime_.executor().now()};
  runtime_.recorder.add(waited);
  widen(waited.end - waited.begin);
  fill();
  co_return std::move(batch);
}

task::Task<void> Loader::close() {
  while (!queue_.empty()) {
    for (tensor::KernelHandle& job : queue_.front()->jobs) {
      try {
        co_await job.finished();
      } catch (...) {  // whoever closes no longer wants the batch, nor what went wrong with it
      }
    }
    queue_.pop_front();
  }
  ahead_ = position_;
}

}  // namespace taxon::data
