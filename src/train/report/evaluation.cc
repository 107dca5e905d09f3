#include "train/report/evaluation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/cost.h"
#include "train/start/resume.h"

namespace taxon::train {

task::Task<Evaluation> Evaluator::evaluate(Evaluation evaluation) {
  const data::Dataset& test = *world_.datasets.test;
  std::vector<double> own;
  if (!world_.model.spec().buffers.empty()) {
    auto remember = on_compute(&world_.runtime, "buffers", [&] { own = world_.model.buffers(); });
    co_await remember;
    co_await average_buffers();
  }
  enum Value { LossSum, BytesSent, Counts };
  std::vector<double> sums(Counts + world_.model.spec().task.counts(), 0.0);
  sums[BytesSent] = evaluation.bytes_sent;
  Range share = part({0, static_cast<std::size_t>(test.size())}, static_cast<std::size_t>(group_.size()),
                     static_cast<std::size_t>(group_.rank()));
  const model::ModelSpec& spec = world_.model.spec();
  auto cost =
      model::forward_cost(spec, static_cast<double>(share.size), 0, static_cast<int>(spec.segments.size()));
  auto pass = on_compute(
      &world_.runtime, "evaluate",
      [&] {
        model::StepOutput output = evaluate_share(share);
        sums[LossSum] = output.loss_sum;
        for (std::size_t i = 0; Counts + i < sums.size(); ++i)
          sums[Counts + i] = static_cast<double>(output.counts[i]);
        if (!own.empty()) world_.model.set_buffers(own);
      },
      cost);
  co_await pass;
  auto total = co_await agreement_.sum(std::move(sums));
  const auto labels = static_cast<double>(test.size() * test.shape().targets());
  evaluation.loss =
      std::isnan(total[LossSum]) ? std::numeric_limits<double>::quiet_NaN() : total[LossSum] / labels;
  evaluation.scores = {spec.task.metrics, {.loss = evaluation.loss}};
  for (std::size_t i = 0; Counts + i < total.size(); ++i)
    evaluation.scores.means.shares[i] = total[Counts + i] / labels;
  evaluation.bytes_sent = total[BytesSent] / group_.size();
  co_return evaluation;
}

/// Runs on the compute stream.
model::StepOutput Evaluator::evaluate_share(Range share) {
  const data::Dataset& test = *world_.datasets.test;
  auto batch = static_cast<std::size_t>(plan_.evaluation.batch);
  model::StepOutput sum;
  for (std::size_t first = share.begin; first < share.end(); first += batch) {
    std::size_t count = std::min(batch, share.end() - first);
    std::vector<std::int64_t> indices(count);
    for (std::size_t i = 0; i < count; ++i) indices[i] = static_cast<std::int64_t>(first + i);
    const data::Samples samples = data::read_samples(test, indices);
    sum += world_.model.evaluate(samples.inputs(), samples.labels);
  }
  return sum;
}

std::size_t Evaluator::buffer_count() const {
  std::size_t count = 0;
  for (const model::BufferSpec& buffer : world_.model.spec().buffers) count += buffer.count();
  return count;
}

/// Batch-norm statistics are each rank's own during training; what is evaluated and saved is their mean.
task::Task<void> Evaluator::average_buffers() {
  std::vector<double> values(buffer_count());
  auto read = on_compute(&world_.runtime, "buffers", [&] { values = world_.model.buffers(); });
  co_await read;
  values = co_await agreement_.sum(std::move(values));
  for (double& value : values) value /= group_.size();
  auto write = on_compute(&world_.runtime, "buffers", [&] { world_.model.set_buffers(values); });
  co_await write;
}

}  // namespace taxon::train
