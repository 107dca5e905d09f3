#include "model/torch/module_model.h"

#include <ATen/ATen.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <memory>
#include <type_traits>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "model/torch/framework.h"
#include "model/torch/networks/layers.h"
#include "model/torch/weight_reads.h"

namespace taxon::model {

using torch::autograd::Node;
using torch::autograd::variable_list;

namespace {

/// The module whose own the parameter is.
std::string owner_of(const std::string& parameter) {
  const std::size_t dot = parameter.rfind('.');
  return dot == std::string::npos ? "" : parameter.substr(0, dot);
}

BoundTensors::Source source_of(torch::nn::Module& module, DType compute, const plan::ModelPlan& plan) {
  BoundTensors::Source source;
  source.model = module.name();
  for (const auto& item : module.named_parameters()) source.parameters.push_back({item.key(), item.value()});
  for (const auto& item : module.named_buffers()) source.buffers.push_back({item.key(), item.value()});
  source.frozen = plan.frozen;
  source.channels_last = plan.memory_format == plan::MemoryFormat::ChannelsLast;
  for (const NamedTensor& item : source.parameters)
    if (std::count(source.stages.begin(), source.stages.end(), owner_of(item.name)) == 0)
      source.stages.push_back(owner_of(item.name));
  source.stage_of = [stages = source.stages](const std::string& parameter) {
    return static_cast<int>(std::find(stages.begin(), stages.end(), owner_of(parameter)) - stages.begin());
  };
  if (size_of(compute) < sizeof(float)) source.exact = as_they_are(source.parameters);
  cast_floating(source.parameters, scalar_type(compute));
  cast_floating(source.buffers, scalar_type(compute));
  return source;
}

/// How libtorch holds nodes of a graph: newer releases of 2.x by pointers of their own.
using NodeHandle = decltype(torch::autograd::Edge::function);
template <class Handle, class Made, class... Arguments>
Handle make_node(Arguments&&... arguments) {
  if constexpr (std::is_same_v<Handle, std::shared_ptr<Node>>)
    return Handle(new Made(std::forward<Arguments>(arguments)...), [](auto* node) { deleteNode(node); });
  else
    return Handle(c10::make_intrusive<Made>(std::forward<Arguments>(arguments)...));
}

}  // namespace

/// The last node of a forward pass, and the first of its backward pass.
class WeightedOutputs final : public Node {
 public:
  WeightedOutputs(std::weak_ptr<ModuleModel* const> model, torch::autograd::edge_list outputs, double weight)
      : Node(std::move(outputs)), model_(std::move(model)), weight_(weight) {}

  variable_list apply(variable_list&& gradients) override {
    const auto model = model_.lock();
    if (!model)
      throw Error(ErrorKind::Usage,
                  "a backward pass through outputs of a DataParallel that is gone: let it live as long");
    if (!(*model)->tensors_.gradients().pass_reaches_parameters()) return std::move(gradients);
    (*model)->begin_pass(this);
    variable_list weighted;
    for (const at::Tensor& gradient : gradients)
      weighted.push_back(gradient.defined() && weight_ != 1 ? gradient * weight_ : gradient);
    return weighted;
  }

 private:
  const std::weak_ptr<ModuleModel* const> model_;
  const double weight_;
};

ModuleModel::ModuleModel(torch::nn::Module& module, DType compute, const plan::ModelPlan& plan,
                         StepOwner& owner, WeightsAtBegin weights)
    : module_(module), tensors_(source_of(module, compute, plan)), owner_(owner), weights_(weights) {
  offer_targets();
  // A term of the loss that goes around forward()'s outputs has gradients before a pass comes to these.
  tensors_.gradients().wait_with([this] { await_turn(); });
  tensors_.gradients().read_rows_with(
      [this](const GradientTarget& target, std::int64_t rows, const std::function<void()>& read) {
        if (!reads_ || !reads_->begun()) return read();
        need({target.segment, rows});
        reads_->leave_out(target.segment, read);
      });
}

void ModuleModel::offer_targets() {
  std::unordered_set<int> direct;
  for (std::size_t i = 0; i < tensors_.trainable().size(); ++i) {
    const int index = tensors_.trainable()[i];
    if (offer_to_layers(module_, tensors_.parameters()[static_cast<std::size_t>(index)].tensor,
                        &tensors_.gradients().target(static_cast<int>(i))))
      direct.insert(index);
  }
  if (weights_ == WeightsAtBegin::AsRead)
    tensors_.spec().find_weights_by_rows([&](int index) { return direct.count(index) > 0; });
}

ModuleModel::~ModuleModel() {
  for (int parameter : tensors_.trainable())
    offer_to_layers(module_, tensors_.parameters()[static_cast<std::size_t>(parameter)].tensor, nullptr);
}

void ModuleModel::begin_reads() {
  if (weights_ == WeightsAtBegin::Whole) return;
  if (!reads_) {
    std::unordered_map<const c10::StorageImpl*, int> readers;
    for (int index : tensors_.trainable()) {
      const at::Tensor& parameter = tensors_.parameters()[static_cast<std::size_t>(index)].tensor;
      readers[parameter.storage().unsafeGetStorageImpl()] = tensors_.spec().segment_of(index);
    }
    reads_ = std::make_unique<WeightReads>(std::move(readers), [this](int segment) { need({segment + 1}); });
  }
  reads_->begin();
}

/// An operator can't be left by an exception: the backward pass will hear of it.
void ModuleModel::need(ReadableWeights weights) noexcept {
  try {
    owner_.need(weights);
  } catch (...) {
  }
}

/// All weights may be read, and gradients are awaited.
void ModuleModel::await_turn() {
  if (reads_) reads_->end();
  owner_.need(StepOwner::kBackward);
}

std::vector<at::Tensor> ModuleModel::weighted(const StepInput& step, std::vector<at::Tensor> outputs) {
  if (!at::GradMode::is_enabled()) return outputs;
  const double weight = static_cast<double>(step.samples()) / static_cast<double>(step.global_size);
  const NodeHandle node =
      make_node<NodeHandle, WeightedOutputs>(alive_, torch::autograd::collect_next_edges(outputs), weight);
  for (at::Tensor& output : outputs) {
    const bool differentiable = output.defined() && output.requires_grad();
    if (output.defined()) output = output.detach();
    if (differentiable)
      torch::autograd::create_gradient_edge(output, node);
    else
      node->add_input_metadata(Node::undefined_input());
  }
  return outputs;
}

/// Where a pass goes through the outputs of several forward passes the first of its nodes begins it.
void ModuleModel::begin_pass(Node* root) {
  if (!pass_.expired()) return;
  await_turn();
  require_whole_passes();
  if (passes_ == Passes::Last)
    throw Error(ErrorKind::Usage,
                "a second backward pass in one step: let all passes but the last run under no_sync()");
  passes_ = last_ ? Passes::Last : Passes::Some;
  GradientSink& gradients = tensors_.gradients();
  gradients.begin_micro_batch(last_);
  gradients.begin_pass(root);
  // A pass that fails drops the callback.
  const auto pass = std::make_shared<bool>(true);
  pass_ = pass;
  failed_ = true;
  torch::autograd::Engine::get_default_engine().queue_callback([this, pass] {
    pass_.reset();
    tensors_.gradients().end_pass();
    failed_ = false;
  });
}

/// Of a pass that failed some gradients are there, and some of them may be under way.
void ModuleModel::require_whole_passes() const {
  if (failed_)
    throw Error(ErrorKind::Usage,
                "a backward pass of this step failed, and a part of its gradients may have left: let what it "
                "threw end the loop");
}

void ModuleModel::end_passes() {
  await_turn();
  require_whole_passes();
  tensors_.require_bound();
  if (passes_ != Passes::Last)
    throw Error(ErrorKind::Usage,
                passes_ == Passes::None
                    ? "a step without a backward pass from what forward() returned"
                    : "a step whose backward passes all ran under no_sync(): the last one must not");
  tensors_.gradients().end_step();
}

void ModuleModel::abandon_passes() {
  try {
    await_turn();
  } catch (...) {
    return;  // the run is over, and with it the step
  }
  tensors_.gradients().abandon_step();
}

// The team is the owner's thread's: these are on another.

void ModuleModel::bind(const Binding& binding) {
  OneThread alone;
  tensors_.bind(binding);
}

void ModuleModel::unbind() {
  owner_.recall();
  OneThread alone;
  tensors_.unbind();
}

std::vector<int> ModuleModel::gradient_order(data::Inputs, data::Values) {
  return {tensors_.trainable().rbegin(), tensors_.trainable().rend()};
}

void ModuleModel::begin(const StepInput& input) {
  if (std::exchange(begun_, true)) return;
  tensors_.gradients().begin_step(input.gradients);
}

void ModuleModel::advance(const StepInput& input, ReadableWeights until) {
  if (weights_ == WeightsAtBegin::Whole || input.labels.empty()) return;
  begin(input);
  owner_.advance(input, until);
}

StepOutput ModuleModel::forward_backward(const StepInput& input, int, tensor::Milestones& marks) {
  GradientSink& gradients = tensors_.gradients();
  begin(input);
  begun_ = false;
  gradients.deliver_to(marks);
  if (input.labels.empty()) {
    gradients.end_step();
    return {};
  }
  passes_ = Passes::None;
  pass_.reset();
  failed_ = false;
  return owner_.compute(input);
}

StepOutput ModuleModel::evaluate(data::Inputs, data::Values labels) {
  TAXON_CHECK(labels.empty(), "the owner's loop tests the model");
  return {};
}

std::vector<std::byte> ModuleModel::random_state() const { return RandomStream::of_framework().bytes(); }

void ModuleModel::set_random_state(ConstView state) {
  RandomStream stream = RandomStream::of_framework();
  stream.restore(state);
  stream.give_to_framework();
}

}  // namespace taxon::model
