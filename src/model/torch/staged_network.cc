#include "model/torch/staged_network.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "base/error.h"
#include "model/division.h"

namespace taxon::model {
namespace {

/// For the end of a step, when nobody waits for buckets.
class Unheard final : public tensor::Milestones {
 public:
  void reached(int) override {}
};

}  // namespace

void StagedNetwork::check(const Division& division) const {
  const ModelSpec& spec = net_.tensors->spec();
  const std::size_t segments = spec.segments.size();
  if (net_.outputs.size() + 1 != segments || segments < 2)
    throw Error(ErrorKind::Usage, fmt::format("model {} can't be divided: it is one segment, as is all that "
                                              "comes in a file; choose a bundled model of several layers",
                                              net_.name));
  if (division.members != 1)
    throw Error(ErrorKind::Usage, fmt::format("model {} has no layers that {} members could divide",
                                              net_.name, division.members));
  for (Range stage : division.stages)
    if (stage.size > 0 && stage.end() < segments && net_.outputs[stage.end() - 1].type != net_.compute)
      throw Error(
          ErrorKind::Usage,
          fmt::format("model {} can't be cut after {}: what leaves it is {}, not {}", net_.name,
                      spec.segments[stage.end() - 1].name, c10::toString(net_.outputs[stage.end() - 1].type),
                      c10::toString(net_.compute)));
}

void StagedNetwork::divide(const Division& division) {
  TAXON_CHECK(!divided() && !net_.tensors->gradients().bound(), "divide() comes once, before bind()");
  check(division);
  net_.call("division", [&] { hold(division, ModelSpec(net_.tensors->spec())); });
}

void StagedNetwork::hold(const Division& division, const ModelSpec& whole) {
  const std::vector<NamedTensor> parameters = net_.tensors->parameters();
  const std::vector<NamedTensor> buffers = net_.network->buffers();
  std::vector<std::vector<int>> borrowed(whole.segments.size());
  for (std::size_t s = 0; s < borrowed.size(); ++s)
    for (const at::Tensor& tensor : net_.network->borrowed(static_cast<int>(s)))
      for (std::size_t p = 0; p < parameters.size(); ++p)
        if (parameters[p].tensor.is_same(tensor)) borrowed[s].push_back(static_cast<int>(p));
  HeldStages held = held_stages(whole, division, borrowed);

  std::vector<NamedTensor> own_parameters, own_buffers;
  for (int p : held.parameters) own_parameters.push_back(parameters[static_cast<std::size_t>(p)]);
  for (int b : held.buffers) own_buffers.push_back(buffers[static_cast<std::size_t>(b)]);
  net_.tensors =
      std::make_unique<BoundTensors>(std::move(held.spec), std::move(own_parameters), std::move(own_buffers));
  net_.offer_targets();
  for (std::size_t p = 0; p < parameters.size(); ++p)
    if (std::count(held.parameters.begin(), held.parameters.end(), static_cast<int>(p)) == 0) {
      at::Tensor tensor = parameters[p].tensor;
      tensor.set_data(at::empty({0}, tensor.options()));
    }

  pieces_ = std::move(held.pieces);
  const std::vector<int>& trainable = net_.tensors->trainable();
  for (std::size_t s = 0; s < held.segments.size(); ++s) {
    parts_.push_back({.stage = held.segments[s]});
    for (int p : held.reads[s]) {
      const auto trained = std::find(trainable.begin(), trainable.end(), p);
      if (trained == trainable.end()) continue;
      parts_[s].trained.push_back(static_cast<int>(trained - trainable.begin()));
      parts_[s].weights.push_back(net_.tensors->parameters()[static_cast<std::size_t>(p)].tensor);
    }
  }
}

void StagedNetwork::begin_step(const StepInput& input) {
  TAXON_CHECK(net_.tensors->gradients().bound(), "bind() comes before the first step");
  TAXON_CHECK(graphs_.empty(), "the step before is not over");
  net_.tensors->gradients().begin_step(input.gradients);
  left_.assign(net_.tensors->trainable().size(), 0);
  for (const Part& part : parts_)
    for (int p : part.trained) ++left_[static_cast<std::size_t>(p)];
  pieces_left_ = static_cast<int>(pieces_.size());
  output_ = {};
}

const SampleLayout& StagedNetwork::input_layout(const Piece& piece) const {
  return net_.outputs[static_cast<std::size_t>(parts_[piece.segments.begin].stage - 1)];
}
const SampleLayout& StagedNetwork::output_layout(const Piece& piece) const {
  return net_.outputs[static_cast<std::size_t>(parts_[piece.segments.end() - 1].stage)];
}

at::Tensor StagedNetwork::viewed(const SampleLayout& layout, ConstView memory, std::size_t samples) {
  const std::size_t bytes =
      samples * static_cast<std::size_t>(layout.elements()) * c10::elementSize(layout.type);
  TAXON_CHECK(memory.size() == bytes, memory.size(), " bytes for ", samples, " samples, which have ", bytes);
  // from_blob has no const form; what is given as const is only read.
  return layout.view(const_cast<std::byte*>(memory.data()), static_cast<std::int64_t>(samples));
}

at::Tensor StagedNetwork::input_of(const Piece& piece, data::Inputs inputs, ConstView input,
                                   Range samples) const {
  if (piece.inputs == 0) return net_.inputs_of(inputs, samples);
  return viewed(input_layout(piece), input, samples.size);
}

void StagedNetwork::forward(int index, const MicroBatch& micro, ConstView input, View output) {
  const Range samples = micro.samples();
  if (samples.size == 0) return;
  net_.call("forward", [&] {
    at::AutoGradMode enable(true);
    net_.network->set_mode(Mode::Train);
    const Piece& piece = pieces_[static_cast<std::size_t>(index)];
    Graph graph;
    at::Tensor activations = input_of(piece, micro.step->inputs, input, samples);
    for (std::size_t s = piece.segments.begin; s < piece.segments.end(); ++s) {
      at::Tensor inputs = activations.detach();
      if (parts_[s].stage > 0) inputs.requires_grad_(true);
      activations = net_.network->forward(parts_[s].stage, inputs);
      graph.links.push_back({inputs, activations, {}});
    }
    if (is_last(piece)) {
      graph.seen = activations.detach().requires_grad_(true);
      const at::Tensor logits = net_.checked_logits(graph.seen, static_cast<std::int64_t>(samples.size));
      const BoundNetwork::Loss loss = net_.loss(logits, net_.labels_of(micro.step->labels, samples));
      graph.loss = loss.sum / micro.step->global_labels();
      output_ += loss.output();
    } else {
      viewed(output_layout(piece), output, samples.size).copy_(activations.detach());
    }
    const bool begun = graphs_.emplace(std::pair(index, micro.index), std::move(graph)).second;
    TAXON_CHECK(begun, "micro-batch ", micro.index, " comes a second time");
  });
}

void StagedNetwork::backward(int index, const MicroBatch& micro, Gradients which, ConstView output_gradient,
                             View input_gradient, bool last, tensor::Milestones& marks) {
  net_.call("backward", [&] {
    const Piece& piece = pieces_[static_cast<std::size_t>(index)];
    const std::size_t samples = micro.samples().size;
    const bool of_inputs = which != Gradients::OfWeights;
    Graph* const graph = samples > 0 ? &graphs_.at({index, micro.index}) : nullptr;
    net_.tensors->gradients().deliver_to(marks);
    if (graph && of_inputs) begin_backward(piece, *graph, which, output_gradient, samples);
    for (std::size_t i = piece.segments.size; i-- > 0;) {
      const Part& part = parts_[piece.segments.begin + i];
      if (last) expect_last(part);
      const at::Tensor gradient = graph ? pass(graph->links[i], part, which) : at::Tensor();
      if (last) end(part);
      if (!graph || !of_inputs) continue;
      if (i > 0) graph->links[i - 1].gradient = gradient;
      if (i == 0 && piece.inputs > 0) {
        const at::Tensor target = viewed(input_layout(piece), input_gradient, samples);
        gradient.defined() ? target.copy_(gradient) : target.zero_();
      }
    }
    if (last && --pieces_left_ == 0) net_.tensors->gradients().end_parameters();
    if (which != Gradients::OfInputs) graphs_.erase({index, micro.index});
  });
}

void StagedNetwork::begin_backward(const Piece& piece, Graph& graph, Gradients which, ConstView given,
                                   std::size_t samples) const {
  at::Tensor& gradient = graph.links.back().gradient;
  if (is_last(piece)) {
    gradient = torch::autograd::grad({std::exchange(graph.loss, {})}, {std::exchange(graph.seen, {})})[0];
    return;
  }
  gradient = viewed(output_layout(piece), given, samples);
  if (which == Gradients::OfInputs)
    gradient = gradient.clone();  // the caller's memory is not ours until then
}

/// Returns the gradient of the inputs. Undefined: there is none, or it was made before.
at::Tensor StagedNetwork::pass(Link& link, const Part& part, Gradients which) {
  if (!link.gradient.defined() || !link.outputs.grad_fn()) return {};
  GradientSink& sink = net_.tensors->gradients();
  switch (which) {
    case Gradients::All:
      return sink.backward(link.outputs, std::exchange(link.gradient, {}), link.inputs);
    case Gradients::OfInputs:
      if (!link.inputs.requires_grad()) return {};
      return torch::autograd::grad({link.outputs}, {link.inputs}, {link.gradient}, /*retain_graph=*/true,
                                   /*create_graph=*/false, /*allow_unused=*/true)[0];
    case Gradients::OfWeights:
      if (!part.weights.empty()) sink.backward_of_weights(link.outputs, link.gradient, part.weights);
      return {};
  }
  return {};
}

void StagedNetwork::expect_last(const Part& part) {
  for (int parameter : part.trained)
    if (--left_[static_cast<std::size_t>(parameter)] == 0) net_.tensors->gradients().expect_last(parameter);
}

void StagedNetwork::end(const Part& part) {
  for (int parameter : part.trained)
    if (left_[static_cast<std::size_t>(parameter)] == 0) net_.tensors->gradients().end_parameter(parameter);
}

StepOutput StagedNetwork::end_step() {
  TAXON_CHECK(graphs_.empty(), graphs_.size(), " passes have no backward pass");
  Unheard nobody;
  net_.tensors->gradients().deliver_to(nobody);
  net_.tensors->gradients().end_step();
  return std::exchange(output_, {});
}

void StagedNetwork::abandon_step() {
  graphs_.clear();
  net_.tensors->gradients().abandon_step();
}

StepOutput StagedNetwork::evaluate(int index, data::Inputs inputs, std::span<const std::int64_t> labels,
                                   ConstView input, View output) {
  if (labels.empty()) return {};
  return net_.call("evaluation", [&] {
    at::NoGradGuard no_grad;
    net_.network->set_mode(Mode::Evaluate);
    const Piece& piece = pieces_[static_cast<std::size_t>(index)];
    const Range samples{0, net_.samples_of(labels)};
    at::Tensor activations = input_of(piece, inputs, input, samples);
    for (std::size_t s = piece.segments.begin; s < piece.segments.end(); ++s)
      activations = net_.network->forward(parts_[s].stage, activations);
    if (is_last(piece)) {
      const at::Tensor logits = net_.checked_logits(activations, static_cast<std::int64_t>(samples.size));
      return net_.loss(logits, net_.labels_of(labels, samples)).output();
    }
    viewed(output_layout(piece), output, samples.size).copy_(activations);
    return StepOutput();
  });
}

}  // namespace taxon::model
