#include "job/own_loop.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/error.h"
#include "job/notices.h"

namespace taxon::job {
namespace {

/// As many samples as the program has; each has its index for a label, and nothing else.
class Indices final : public data::Dataset {
 public:
  explicit Indices(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  const data::SampleShape& shape() const override { return shape_; }
  void read(std::span<const std::int64_t> indices, std::span<float>,
            std::span<std::int64_t> labels) const override {
    std::copy(indices.begin(), indices.end(), labels.begin());
  }

 private:
  const std::int64_t size_;
  const data::SampleShape shape_{{0}, 0};
};

}  // namespace

OwnLoop::OwnLoop(Job& job, model::Model& model, StepTurns& turns, OwnLoopOptions options)
    : job_(job), turns_(turns), own_observer_(std::make_unique<Notices>(job.options())) {
  if (options.samples <= 0)
    throw Error(ErrorKind::Usage, "say how many samples the training set has, which epochs are counted by");
  data_ = {std::make_unique<Indices>(options.samples), std::make_unique<Indices>(0)};
  asked_to_stop_ = options.train.stop != nullptr ? options.train.stop : job.options().stop;
  options.train.stop = &stop_;
  train::Observer* observer = options.observer != nullptr ? options.observer : own_observer_.get();
  job_.lend([this](const Error& error) { turns_.fail(std::make_exception_ptr(error)); });
  run_ = std::thread([this, &model, observer, options = std::move(options.train)]() mutable {
    std::exception_ptr error;
    try {
      outcome_ = train(job_, model, data_, *observer, std::move(options));
    } catch (...) {
      error = std::current_exception();
    }
    turns_.end(error);
  });
  try {
    await();
  } catch (...) {
    end();
    throw;
  }
}

OwnLoop::~OwnLoop() {
  if (!run_.joinable()) return;
  const char* why = std::uncaught_exceptions() > 0
                        ? "its program ended by an exception"
                        : "its program left the training loop before the run's end";
  turns_.leave(std::make_exception_ptr(Error(ErrorKind::Usage, why)));
  end();
}

void OwnLoop::end() {
  job_.process().wait_for_program(false);
  run_.join();
  job_.lend({});
}

void OwnLoop::await() {
  if (asked_to_stop_ != nullptr && asked_to_stop_->load()) stop();
  if (turns_.await() == nullptr) return end();
  job_.process().wait_for_program(true);
}

void OwnLoop::next(const model::StepOutput& output) {
  job_.process().wait_for_program(false);
  turns_.give_back(output);
  await();
}

}  // namespace taxon::job
