#include "train/report/evaluation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

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
  std::vector<double> sums(Counts + world_.model.spec().task.counts, 0.0);
  sums[BytesSent] = evaluation.bytes_sent;
  const Range share = share_of(ranks_.data.rank());
  const model::StepOutput output = co_await pass(share);
  sums[LossSum] = output.loss_sum;
  for (std::size_t i = 0; Counts + i < sums.size(); ++i) sums[Counts + i] = output.counts[i];
  if (!own.empty()) {
    auto bring_back = on_compute(&world_.runtime, "buffers", [&] { world_.model.set_buffers(own); });
    co_await bring_back;
  }
  auto total = co_await ranks_.agreement.sum(std::move(sums));
  const auto labels = static_cast<double>(test.size() * test.shape().targets());
  evaluation.loss =
      std::isnan(total[LossSum]) ? std::numeric_limits<double>::quiet_NaN() : total[LossSum] / labels;
  evaluation.scores = {world_.model.spec().task.metrics, {.loss = evaluation.loss}};
  for (std::size_t i = 0; Counts + i < total.size(); ++i)
    evaluation.scores.means.counts[i] = total[Counts + i] / labels;
  evaluation.bytes_sent = total[BytesSent] / ranks_.group.size();
  co_return evaluation;
}

Range Evaluator::share_of(int replica) const {
  return part({0, static_cast<std::size_t>(world_.datasets.test->size())},
              static_cast<std::size_t>(ranks_.data.size()), static_cast<std::size_t>(replica));
}

task::Task<model::StepOutput> Evaluator::pass(Range share) {
  model::StepOutput output;
  if (staged_) {
    // Equally often everywhere, where parameters are gathered for each batch: the first share is the largest.
    auto batches = batches_of(share);
    batches.resize(batches_of(share_of(0)).size());
    for (const std::vector<std::int64_t>& batch : batches) {
      auto passing = staged_->evaluate(world_.datasets.test.get(), batch);
      output += co_await passing;
    }
    co_return output;
  }
  const model::ModelSpec& spec = world_.model.spec();
  auto cost =
      model::forward_cost(spec, static_cast<double>(share.size), 0, static_cast<int>(spec.segments.size()));
  auto passing = on_compute(
      &world_.runtime, "evaluate", [&] { output = evaluate_share(share); }, cost);
  co_await passing;
  co_return output;
}

/// Runs on the compute stream.
model::StepOutput Evaluator::evaluate_share(Range share) {
  model::StepOutput sum;
  for (const std::vector<std::int64_t>& batch : batches_of(share)) {
    const data::Samples samples = data::read_samples(*world_.datasets.test, batch);
    sum += world_.model.evaluate(samples.inputs(), samples.labels);
  }
  return sum;
}

std::vector<std::vector<std::int64_t>> Evaluator::batches_of(Range share) const {
  std::int64_t most = plan_.evaluation.batch;
  if (const std::int64_t taken = world_.model.spec().largest_batch; taken > 0) most = std::min(most, taken);
  const auto batch = static_cast<std::size_t>(most);
  std::vector<std::vector<std::int64_t>> batches;
  for (std::size_t first = share.begin; first < share.end(); first += batch) {
    std::vector<std::int64_t>& indices = batches.emplace_back(std::min(batch, share.end() - first));
    std::iota(indices.begin(), indices.end(), static_cast<std::int64_t>(first));
  }
  return batches;
}

/// Batch-norm statistics are each rank's own during training; what is evaluated and saved is their mean.
/// Ranks that only serve have seen no sample.
task::Task<void> Evaluator::average_buffers() {
  std::vector<double> values(buffer_count(world_.model.spec()));
  const bool works = ranks_.position.data < plan::workers(plan_, ranks_.lasting.size());
  if (works) {
    auto read = on_compute(&world_.runtime, "buffers", [&] { values = world_.model.buffers(); });
    co_await read;
  }
  values.push_back(works ? 1 : 0);  // workers may have been lost
  values = co_await ranks_.data_agreement.sum(std::move(values));
  const double workers = values.back();
  values.pop_back();
  for (double& value : values) value /= workers;
  auto write = on_compute(&world_.runtime, "buffers", [&] { world_.model.set_buffers(values); });
  co_await write;
}

}  // namespace taxon::train
