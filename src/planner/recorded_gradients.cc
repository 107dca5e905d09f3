#include "planner/recorded_gradients.h"

#include <chrono>

#include "base/error.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include "planner/measured.h"

namespace taxon::planner {
namespace {

class NoMarks final : public tensor::Milestones {
 public:
  void reached(int) override {}
};

data::Samples read_batch(const data::Dataset& train, data::Sampler& sampler, std::int64_t consumed) {
  return data::read_samples(train, sampler.at(consumed, 1, 0).indices);
}

exchange::Layout lay_out(const model::ModelSpec& spec, const plan::Plan& plan, const std::vector<int>& order,
                         std::vector<int>* parameters) {
  std::vector<exchange::Tensor> tensors;
  for (int p : order) {
    const model::ParameterSpec& parameter = spec.parameters[static_cast<std::size_t>(p)];
    tensors.push_back({parameter.name, parameter.shape, spec.segment_of(p)});
  }
  const DType type = plan.precision.master;
  auto layout = exchange::lay_out(tensors, exchange::cut_buckets(tensors, type, plan.exchange), type);
  for (int tensor : layout.tensors) parameters->push_back(order[static_cast<std::size_t>(tensor)]);
  return layout;
}

}  // namespace

RecordedGradient record_gradient(model::Model& model, const data::Dataset& train, const plan::Plan& plan,
                                 std::int64_t samples, int steps) {
  if (samples > train.size())
    throw Error(ErrorKind::Usage, "a pass has more samples than the training set: give a smaller batch");
  data::Sampler sampler(plan.seed, train.size(), samples);
  data::Samples batch = read_batch(train, sampler, 0);
  model::Binding binding;
  RecordedGradient recorded{
      lay_out(model.spec(), plan, model.gradient_order(batch.inputs(), batch.labels), &binding.parameters),
      {}};
  const exchange::Layout& layout = recorded.layout;
  tensor::Arena weights(plan.precision.compute, layout.arena.size());
  recorded.values = tensor::Arena(DType::Float32, layout.arena.size());
  binding.layout = &layout.arena;
  binding.weights = &weights;
  binding.gradients = {&recorded.values};
  for (const exchange::Bucket& bucket : layout.buckets)
    binding.buckets.push_back({bucket.range, bucket.gradients});
  model.bind(binding);
  std::vector<double> seconds;
  NoMarks marks;
  for (int step = 0; step < steps; ++step) {
    if (step > 0) batch = read_batch(train, sampler, step * samples);
    const auto begin = std::chrono::steady_clock::now();
    const std::int64_t targets = train.shape().targets();
    const model::StepInput input{.inputs = batch.inputs(),
                                 .labels = batch.labels,
                                 .global_size = static_cast<std::int64_t>(batch.labels.size()) / targets,
                                 .targets = targets};
    model.forward_backward(input, 0, marks);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    // Weights of a compute copy that is not float32 stay where they are.
    if (plan.precision.compute != DType::Float32) continue;
    auto values = weights.values<float>({0, weights.size()});
    auto gradient = recorded.values.values<float>({0, weights.size()});
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] -= static_cast<float>(plan.learning_rate.base) * gradient[i];
  }
  model.unbind();
  recorded.seconds = measured(std::move(seconds)).median;
  return recorded;
}

}  // namespace taxon::planner
