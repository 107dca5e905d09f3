#include "planner/compute_probe.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <vector>

#include "comm/rows/segments.h"
#include "comm/sum.h"
#include "optim/rule.h"
#include "planner/blas_speed.h"
#include "planner/measured.h"
#include "tensor/arena.h"

namespace taxon::planner {
namespace {

/// What an update takes at a time.
constexpr std::size_t kUpdateElements = 256 * 1024;
/// Gradients that no cache holds, and some that share the last cache with whatever else a step touches.
constexpr std::size_t kArenaElements = std::size_t{8} << 20, kCachedElements = std::size_t{256} << 10;

/// Of several attempts the best counts: whoever else works on the machine only takes away.
constexpr int kAttempts = 3;

double attempt(double seconds, const std::function<std::size_t()>& piece) {
  using Clock = std::chrono::steady_clock;
  std::size_t bytes = 0;
  const auto begin = Clock::now();
  std::chrono::duration<double> spent{0};
  while (spent.count() < seconds) {
    bytes += piece();
    spent = Clock::now() - begin;
  }
  return static_cast<double>(bytes) / spent.count();
}

/// Bytes per second, and by how much the worst attempt fell short of it, as a share.
struct Bandwidth {
  double best = 0, spread = 0;
};

/// Of `piece`, which returns the bytes that it touched.
Bandwidth bytes_per_second(double seconds, const std::function<std::size_t()>& piece) {
  piece();  // touches the memory
  double best = 0, worst = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kAttempts; ++i) {
    const double speed = attempt(seconds / kAttempts, piece);
    best = std::max(best, speed);
    worst = std::min(worst, speed);
  }
  return {best, best > 0 ? 1 - worst / best : 0};
}

/// Walks through an arena in pieces.
class Walk {
 public:
  Walk(std::size_t piece, std::size_t elements) : piece_(piece), elements_(elements) {}
  Range next() {
    const Range range{at_, piece_};
    at_ = at_ + 2 * piece_ > elements_ ? 0 : at_ + piece_;
    return range;
  }

 private:
  std::size_t piece_, elements_;
  std::size_t at_ = 0;
};

Bandwidth sum_speed(double seconds, const tensor::Arena& gradients) {
  tensor::Arena received(DType::Float32, comm::kSegmentBytes / sizeof(float));
  Walk walk(comm::kSegmentBytes / sizeof(float), gradients.size());
  return bytes_per_second(seconds, [&] {
    const View target = gradients.bytes(walk.next());
    const ConstView sources[] = {target, received.bytes()};
    comm::sum_into(DType::Float32, target, sources);
    return 3 * target.size();
  });
}

Bandwidth copy_speed(double seconds, const tensor::Arena& gradients) {
  tensor::Arena other(DType::Float32, gradients.size());
  Walk walk(comm::kSegmentBytes / sizeof(float), gradients.size());
  return bytes_per_second(seconds, [&] {
    const Range range = walk.next();
    comm::copy_into(gradients.bytes(range), other.bytes(range));
    return 2 * range.size * sizeof(float);
  });
}

Bandwidth update_speed(double seconds, const tensor::Arena& gradients) {
  tensor::Arena weights(DType::Float32, gradients.size());
  plan::OptimiserPlan momentum;
  momentum.rule = "momentum";
  auto rule = optim::find_rule(momentum.rule).make(momentum, {DType::Float32, gradients.size(), {}});
  Walk walk(std::min(kUpdateElements, gradients.size() / 4), gradients.size());
  return bytes_per_second(seconds, [&] {
    const Range range = walk.next();
    rule->update(weights, gradients, optim::UpdateRange::same(range), {.rate = 0.1});
    return 5 * range.size * sizeof(float);
  });
}

}  // namespace

double probe_matrix(double seconds, int threads) {
  set_blas_threads(threads);
  return matrix_speed(seconds);
}

task::Task<double> probe_launch(comm::Runtime* runtime) {
  constexpr std::size_t kKernels = 500;
  std::vector<double> seconds;
  while (seconds.size() < kKernels) {
    tensor::Kernel nothing{"nothing", {}, [](tensor::Milestones&) {}};
    const Instant begin = runtime->executor().now();
    co_await tensor::run(runtime->device, runtime->pending(), tensor::Stream::Compute, std::move(nothing));
    seconds.push_back(to_seconds(runtime->executor().now() - begin));
  }
  co_return measured(std::move(seconds)).median;
}

ComputeFigures probe_compute(double seconds, int threads) {
  tensor::Arena gradients(DType::Float32, kArenaElements);
  ComputeFigures figures;
  figures.flops = probe_matrix(seconds, threads);
  auto take = [&figures](const Bandwidth& measured) {
    figures.spread = std::max(figures.spread, measured.spread);
    return measured.best;
  };
  figures.sum_bandwidth = take(sum_speed(seconds, gradients));
  figures.update_bandwidth = take(update_speed(seconds, gradients));
  figures.copy_bandwidth = take(copy_speed(seconds, gradients));
  figures.cache_bandwidth = take(update_speed(seconds, tensor::Arena(DType::Float32, kCachedElements)));
  return figures;
}

}  // namespace taxon::planner
