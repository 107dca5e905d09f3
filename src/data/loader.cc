#include "data/loader.h"

#include "base/check.h"

namespace taxon::data {

/// A batch in the making: the kernel writes into it until the job ended.
struct Loader::Prefetch {
  Batch batch;
  std::optional<tensor::KernelHandle> job;
};

Loader::Loader(comm::Runtime& runtime, const Dataset& dataset, Sampler sampler, int prefetch,
               std::int64_t consumed, std::int64_t total, int workers)
    : runtime_(runtime),
      dataset_(dataset),
      sampler_(std::move(sampler)),
      prefetch_(prefetch),
      position_(consumed),
      ahead_(consumed),
      total_(total),
      workers_(workers) {
  TAXON_CHECK(prefetch_ > 0, "prefetch=", prefetch_);
}

Loader::~Loader() = default;  // each job checks that it ended

void Loader::fill() {
  while (queue_.size() < static_cast<std::size_t>(prefetch_) && ahead_ < total_) {
    Sampler::Position place = sampler_.position_of(ahead_);
    const int rank = runtime_.rank().value();
    const bool works = rank < workers_;
    std::size_t share = 0;
    if (works)
      share = part({0, static_cast<std::size_t>(place.size)}, static_cast<std::size_t>(workers_),
                   static_cast<std::size_t>(rank))
                  .size;
    std::size_t elements = share * static_cast<std::size_t>(dataset_.shape().elements());
    auto prefetch = std::make_unique<Prefetch>();
    // Sizes are decided here, not by the kernel: the virtual world skips bodies.
    prefetch->batch = {place.epoch, ahead_, place.size, {}, std::vector<std::int64_t>(share)};
    tensor::Kernel kernel;
    kernel.name = "read batch";
    kernel.cost = dataset_.cost(static_cast<std::int64_t>(share));
    kernel.body = [this, works, batch = &prefetch->batch, elements](tensor::Milestones&) {
      if (!works) return;
      // The data stream runs one kernel at a time, so the sampler's cache needs no lock.
      Sampler::Batch drawn = sampler_.at(batch->first, workers_, runtime_.rank().value());
      batch->inputs.resize(elements);
      dataset_.read(drawn.indices, batch->inputs, batch->labels);
    };
    prefetch->job.emplace(runtime_.device, runtime_.pending(), tensor::Stream::Data, std::move(kernel));
    queue_.push_back(std::move(prefetch));
    ahead_ += place.size;
  }
}

task::Task<Batch> Loader::next() {
  TAXON_CHECK(!at_end(), "the loader is at its end");
  if (auto why = runtime_.pending().cancelled()) std::rethrow_exception(why);
  fill();
  Prefetch& front = *queue_.front();
  Instant begin = runtime_.executor().now();
  co_await front.job->finished();
  if (auto why = runtime_.pending().cancelled()) std::rethrow_exception(why);
  Batch batch = std::move(front.batch);
  queue_.pop_front();
  position_ += batch.global_size;
  comm::Span waited{"data", "wait for batch",         -1, batch.inputs.size() * sizeof(float),
                    begin,  runtime_.executor().now()};
  runtime_.recorder.add(waited);
  fill();
  co_return std::move(batch);
}

task::Task<void> Loader::close() {
  while (!queue_.empty()) {
    try {
      co_await queue_.front()->job->finished();
    } catch (...) {  // whoever closes no longer wants the batch, nor what went wrong with it
    }
    queue_.pop_front();
  }
  ahead_ = position_;
}

}  // namespace taxon::data
