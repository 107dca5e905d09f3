#include "model/torch/gradients.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "model/torch/framework.h"

namespace taxon::model {

using torch::autograd::Node;

namespace {

/// Of the pass that runs on this thread, or else of one from `root`: terms of a loss may go around a node.
std::unordered_set<Node*> nodes_of_pass(Node* root) {
  if (const auto* running = torch::autograd::get_current_graph_task_nodes_in_graph()) return *running;
  std::unordered_set<Node*> nodes{root};
  for (std::vector<Node*> open{root}; !open.empty();) {
    Node* node = open.back();
    open.pop_back();
    for (const auto& edge : node->next_edges())
      if (edge.function && nodes.insert(edge.function.get()).second) open.push_back(edge.function.get());
  }
  return nodes;
}

/// Of a sample's factors.
std::int64_t row_bytes(const GradientTarget& target) {
  return static_cast<std::int64_t>(target.outputs.size(1) + target.inputs.size(1)) *
         static_cast<std::int64_t>(target.outputs.element_size());
}

/// Why it does not stay where it was born.
std::string_view reason_to_copy(const GradientTarget& target, const at::Tensor& gradient) {
  if (target.filled) return "it was added to that of an earlier micro-batch";
  if (gradient.layout() != at::kStrided) return "it was sparse";
  if (gradient.scalar_type() != target.slot.scalar_type()) return "its type was converted";
  if (!lie_alike(gradient, target.slot)) return "its layout is not the parameter's";
  if (!Analyser::held_alone(gradient)) return "something else held it too";
  return "it was born elsewhere";
}

}  // namespace

/// Stands before a parameter's accumulator, which gets nothing.
class GradientArrives final : public torch::autograd::FunctionPreHook {
 public:
  GradientArrives(GradientSink& sink, std::size_t parameter) : sink_(sink), parameter_(parameter) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    if (!sink_.takes()) return gradients;
    sink_.arrived(parameter_, gradients[0]);
    return torch::autograd::variable_list(1);
  }

 private:
  GradientSink& sink_;
  const std::size_t parameter_;
};

struct GradientSink::Accumulator {
  // Autograd itself keeps a weak reference. Which class of pointers holds nodes is the release's choice.
  decltype(torch::autograd::impl::grad_accumulator(at::Tensor())) node;
  const void* hook;
};

GradientSink::GradientSink(std::vector<at::Tensor> parameters, const std::vector<int>& segments)
    : parameters_(std::move(parameters)), targets_(parameters_.size()) {
  std::vector<Node*> nodes;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    targets_[i].sink = this;
    targets_[i].segment = segments[i];
    auto node = torch::autograd::impl::grad_accumulator(parameters_[i]);
    auto hook = std::make_unique<GradientArrives>(*this, i);
    nodes.push_back(node.get());
    accumulators_.push_back({node, hook.get()});
    node->add_pre_hook(std::move(hook));
  }
  analyser_ = std::make_unique<Analyser>(nodes);
}

GradientSink::~GradientSink() {
  // A graph that somebody still holds keeps the accumulators alive longer than their hooks' target.
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    std::erase_if(accumulators_[i].node->pre_hooks(),
                  [&](const auto& hook) { return hook.get() == accumulators_[i].hook; });
}

void GradientSink::bind(const Binding& binding, const std::vector<int>& parameter_of_slot) {
  const auto& slots = binding.layout->slots();
  slots_.assign(binding.gradients.size(), std::vector<at::Tensor>(parameters_.size()));
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    const auto parameter = static_cast<std::size_t>(parameter_of_slot[slot]);
    for (std::size_t a = 0; a < slots_.size(); ++a) {
      const tensor::Arena& arena = *binding.gradients[a];
      slots_[a][parameter] =
          at::from_blob(arena.bytes(binding.gradient(slot)).data(), parameters_[parameter].sizes(),
                        parameters_[parameter].strides(), scalar_type(arena.type()));
    }
    targets_[parameter].range = slots[slot].range;
    targets_[parameter].row_ends.clear();
    if (binding.pieces_are_awaited)
      for (const RowBlock& block : binding.row_blocks(slot))
        targets_[parameter].row_ends.push_back(block.end);
  }
  for (const at::Tensor& slot : slots_.front()) TAXON_CHECK(slot.defined());
  bind_factors(binding, parameter_of_slot);
  progress_ = Progress(binding);
  births_ = binding.births;
  pieces_are_awaited_ = binding.pieces_are_awaited;
  parameter_of_slot_ = parameter_of_slot;
  crossings_.assign(parameters_.size(), {});
  steps_ = 0;
}

bool GradientSink::pass_reaches_parameters() const {
  const auto* wanted = torch::autograd::get_current_graph_task_exec_info();
  if (wanted == nullptr || wanted->empty()) return true;  // whatever the graph has
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto found = wanted->find(accumulators_[i].node.get());
    if (found != wanted->end() && found->second.needed_) return true;
  }
  return false;
}

void GradientSink::bind_factors(const Binding& binding, const std::vector<int>& parameter_of_slot) {
  factors_.clear();
  for (const FactorSlot& slot : binding.factor_slots) {
    const auto parameter = static_cast<std::size_t>(parameter_of_slot[slot.slot]);
    FactorViews views{parameter, {}, {}};
    for (const tensor::Arena* arena : binding.factors) {
      auto view = [&](Range range, std::int64_t columns) {
        return at::from_blob(arena->bytes(range).data(), {static_cast<std::int64_t>(slot.rows), columns},
                             scalar_type(arena->type()));
      };
      views.outputs.push_back(view(slot.outputs, parameters_[parameter].size(0)));
      views.inputs.push_back(view(slot.inputs, parameters_[parameter].size(1)));
    }
    factors_.push_back(std::move(views));
  }
}

void GradientSink::unbind() {
  slots_.clear();
  factors_.clear();
  for (GradientTarget& target : targets_) target.slot = target.outputs = target.inputs = at::Tensor();
}

void GradientSink::start_recording() {
  recording_ = true;
  order_.clear();
}

std::vector<int> GradientSink::stop_recording() {
  recording_ = false;
  return std::exchange(order_, {});
}

void GradientSink::begin_step(std::size_t arena) {
  copies_ = {};
  ++steps_;
  begin_again();
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    GradientTarget& target = targets_[i];
    target.slot = slots_[arena][i];
    target.uses = 0;
    target.direct = target.slot.scalar_type() == parameters_[i].scalar_type();
    target.outputs = target.inputs = target.begun = at::Tensor();
    target.begun_rows = 0;
  }
  for (const FactorViews& views : factors_) {
    GradientTarget& target = targets_[views.parameter];
    target.outputs = views.outputs[arena];
    target.inputs = views.inputs[arena];
    target.rows = 0;
    target.direct = true;  // whatever its type: rows are converted
  }
}

void GradientSink::begin_again() {
  progress_.begin();
  for (GradientTarget& target : targets_) {
    target.filled = false;
    target.last = false;
    target.final_elements = 0;
  }
}

void GradientSink::append_factors(GradientTarget& target, const at::Tensor& outputs,
                                  const at::Tensor& inputs) {
  const std::int64_t rows = outputs.size(0);
  TAXON_CHECK(target.rows + rows <= target.outputs.size(0), "more samples than ", target.outputs.size(0));
  target.outputs.narrow(0, target.rows, rows).copy_(outputs);
  target.inputs.narrow(0, target.rows, rows).copy_(inputs);
  target.rows += rows;
  count(static_cast<std::size_t>(&target - targets_.data()), rows * row_bytes(target),
        "factors are gathered row by row");
  if (!target.last) return;
  end_factors(target);
  written(target, target.range.size);
}

/// Of what runs inside a node, as a pass of its own, the graph says nothing.
void GradientSink::refuse_more() {
  throw Error(ErrorKind::Usage,
              "a weight's gradient grew after it was sent, by a backward pass inside of another's node; let "
              "the layer be torch::nn::Linear, whose gradient is sent when autograd has all of it");
}

/// Zeroes the rows that the share does not fill.
void GradientSink::end_factors(GradientTarget& target) {
  const std::int64_t left = target.outputs.size(0) - target.rows;
  if (left == 0) return;
  target.outputs.narrow(0, target.rows, left).zero_();
  target.inputs.narrow(0, target.rows, left).zero_();
}

void GradientSink::end_segments(int from) {
  for (GradientTarget& target : targets_)
    if (target.segment >= from) end_target(target);
}

void GradientSink::end_parameter(int parameter) { end_target(targets_[static_cast<std::size_t>(parameter)]); }

void GradientSink::end_target(GradientTarget& target) {
  if (target.final_elements == 0) {
    if (target.leaves_factors())
      end_factors(target);
    else if (!target.filled)
      target.slot.zero_();
  }
  complete(target, target.range.size);
}

void GradientSink::end_step() {
  end_segments(0);
  progress_.finish(*marks_);
  note_sizes();
  abandon_step();
}

void GradientSink::note_sizes() {
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    const GradientTarget& target = targets_[i];
    auto bytes = static_cast<std::int64_t>(target.slot.nbytes());
    if (target.leaves_factors()) bytes = target.rows * row_bytes(target);
    GradientTransfer& crossing = crossings_[i];
    if (crossing.steps > 0 && crossing.bytes != bytes) crossing.shape = GradientTransfer::Shape::Dynamic;
    crossing.bytes = bytes;
    ++crossing.steps;
  }
}

std::vector<GradientTransfer> GradientSink::crossings() const {
  std::vector<GradientTransfer> by_slot;
  for (int parameter : parameter_of_slot_) by_slot.push_back(crossings_[static_cast<std::size_t>(parameter)]);
  return by_slot;
}

void GradientSink::abandon_step() {
  marks_ = nullptr;
  recording_ = false;
  pass_.reset();
  late_.clear();
  for (GradientTarget& target : targets_) {
    target.direct = false;
    target.begun = at::Tensor();
  }
}

void GradientSink::backward(const at::Tensor& loss) {
  begin_pass(loss.grad_fn().get());
  loss.backward();
  end_pass();
}

void GradientSink::begin_pass(Node* root) {
  offer_slots();
  find_exclusive(root);
  if (births_ == Binding::Births::Placed) pass_.emplace(*analyser_, root);
}

std::vector<at::Tensor> GradientSink::backward(const at::Tensor& outputs, const at::Tensor& gradient,
                                               const std::vector<at::Tensor>& inputs) {
  begin_pass(outputs.grad_fn().get());
  outputs.backward(gradient);
  pass_.reset();
  std::vector<at::Tensor> results;
  for (const at::Tensor& input : inputs) {
    at::Tensor result = input.grad();
    if (Analyser::placed(result)) {  // it outlives the pass
      input.mutable_grad().reset();
      result = result.clone();
    }
    results.push_back(result);
  }
  end_pass();
  return results;
}

void GradientSink::backward_of_weights(const at::Tensor& outputs, const at::Tensor& gradient,
                                       const std::vector<at::Tensor>& weights) {
  begin_pass(outputs.grad_fn().get());
  torch::autograd::backward({outputs}, {gradient}, /*retain_graph=*/false, /*create_graph=*/false, weights);
  end_pass();
}

/// Offers the slots that nothing has been written to and that no layer of this graph writes to itself.
void GradientSink::offer_slots() {
  if (births_ == Binding::Births::Copied) return;
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    const GradientTarget& target = targets_[i];
    const bool free = !target.filled && target.uses == 0 && !target.leaves_factors();
    if (free && target.slot.scalar_type() == parameters_[i].scalar_type()) analyser_->offer(i, target.slot);
  }
}

/// A weight whose every edge in the graph is one of a direct layer's uses gets nothing besides.
void GradientSink::find_exclusive(Node* root) {
  const auto written = [](const GradientTarget& target) { return target.last && target.uses > 0; };
  if (std::none_of(targets_.begin(), targets_.end(), written)) return;
  std::unordered_map<const Node*, int> edges;
  for (const Node* node : nodes_of_pass(root))
    for (const auto& edge : node->next_edges()) ++edges[edge.function.get()];
  for (std::size_t i = 0; i < targets_.size(); ++i)
    targets_[i].exclusive = edges[accumulators_[i].node.get()] == targets_[i].uses;
}

void GradientSink::end_pass() {
  pass_.reset();
  store_late();
  for (std::size_t i = 0; i < targets_.size(); ++i)
    if (analyser_->occupied(i))
      throw Error(
          ErrorKind::Internal,
          "the model keeps a tensor of its backward pass in memory that gradients travel from; let it "
          "keep a clone");
}

void GradientSink::arrived(std::size_t parameter, const at::Tensor& gradient) {
  if (recording_) {
    if (gradient.defined()) order_.push_back(static_cast<int>(parameter));
    return;
  }
  if (await_) await_();
  if (!marks_) return;
  if (gradient.defined()) keep(parameter, gradient);
  store_late();
  const GradientTarget& target = targets_[parameter];
  if (target.last && target.filled) complete(targets_[parameter], target.range.size);
}

void GradientSink::keep(std::size_t parameter, const at::Tensor& gradient) {
  GradientTarget& target = targets_[parameter];
  TAXON_CHECK(!target.leaves_factors(), "a layer that leaves factors has a gradient beside them");
  if (target.final_elements > 0) refuse_more();
  at::NoGradGuard no_grad;
  switch (analyser_->arrived(parameter, gradient)) {
    case Analyser::Arrival::InPlace:
      target.filled = true;
      return;
    case Analyser::Arrival::Elsewhere:
      return store(parameter, gradient);
    case Analyser::Arrival::Occupied:
      break;
  }
  // Held in somebody's place it would keep that one from being written.
  const bool aside = Analyser::placed(gradient);
  if (aside) count(parameter, static_cast<std::int64_t>(gradient.nbytes()), "its place was in use");
  late_.push_back({parameter, aside ? gradient.clone() : gradient});
}

void GradientSink::store(std::size_t parameter, const at::Tensor& gradient) {
  GradientTarget& target = targets_[parameter];
  const auto bytes = static_cast<std::int64_t>(target.slot.nbytes());
  const std::string_view why = reason_to_copy(target, gradient);
  const bool strided = gradient.layout() == at::kStrided;
  if (!strided) count(parameter, bytes, why);
  const at::Tensor dense = strided ? gradient : gradient.to_dense();
  if (target.filled)
    target.slot.add_(dense);
  else
    target.slot.copy_(dense);
  count(parameter, bytes, why);
  target.filled = true;
}

void GradientSink::store_late() {
  at::NoGradGuard no_grad;
  const auto waits = [this](const Late& late) { return analyser_->occupied(late.parameter); };
  const auto ready = std::stable_partition(late_.begin(), late_.end(), waits);
  for (auto late = ready; late != late_.end(); ++late) {
    GradientTarget& target = targets_[late->parameter];
    store(late->parameter, late->gradient);
    if (target.last) complete(target, target.range.size);
  }
  late_.erase(ready, late_.end());
}

void GradientSink::count(std::size_t parameter, std::int64_t bytes, std::string_view why) {
  ++copies_.copies;
  copies_.bytes += bytes;
  GradientTransfer& crossing = crossings_[parameter];
  ++crossing.copies;
  crossing.last_copy = steps_;
  crossing.why = why;
}

void GradientSink::written(GradientTarget& target, std::size_t end) {
  if (end <= target.final_elements) refuse_more();
  if (marks_ && target.last && target.exclusive && target.uses == 0) complete(target, end);
}

void GradientSink::complete(GradientTarget& target, std::size_t end) {
  if (end <= target.final_elements) return;
  Range elements{target.range.begin + target.final_elements, end - target.final_elements};
  target.final_elements = end;
  progress_.completed(elements, *marks_);
}

}  // namespace taxon::model
