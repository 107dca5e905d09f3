#include "model/torch/torch_model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/rng.h"
#include "model/torch/builders.h"
#include "model/torch/flops.h"
#include "model/torch/staged_network.h"

namespace taxon::model {
namespace {

plan::ModelReturns returns_of(const plan::ModelPlan& model) {
  return plan::comes_in_a_file(model) ? model.options.read<plan::ModelFileOptions>().returns
                                      : plan::ModelReturns::Logits;
}

/// A loss of the program's own needs none.
Task task_for(const ModelContext& context, bool has_own_loss) {
  const auto rows = task_table();
  const bool any =
      std::any_of(rows.begin(), rows.end(), [&](const TaskRow& row) { return row.fits(context.shape); });
  return has_own_loss && !any ? Task() : task_of(context);
}

/// Micro-batches that the share is really cut into: none is empty. REQUIRES: the share is not.
std::size_t parts_of(const StepInput& input) {
  return std::min(static_cast<std::size_t>(input.micro_batches), input.samples());
}

}  // namespace

TorchModel::TorchModel(std::string name, const ModelContext& context, const Builder& build,
                       LossFunction own_loss)
    : net_{.name = std::move(name),
           .shape = context.shape,
           .compute = scalar_type(context.compute),
           .stream = RandomStream(Rng(context.seed, "model", static_cast<std::uint64_t>(context.rank))()),
           .own_loss = std::move(own_loss)} {
  {
    RandomStream initial(context.seed);
    FrameworkCall state(initial, net_.threads);  // still one: this is not the compute thread, see OneThread
    net_.network = build();
  }
  net_.format = format_of(context.plan->memory_format, net_.network->fastest());
  net_.call("set-up", [&] {
    Network& network = *net_.network;
    std::vector<NamedTensor> exact;
    if (c10::elementSize(net_.compute) < sizeof(float)) exact = as_they_are(network.parameters());
    network.cast(net_.compute);
    const std::vector<std::string> stages = network.stages();
    net_.tensors = std::make_unique<BoundTensors>(
        BoundTensors::Source{.model = net_.name,
                             .parameters = network.parameters(),
                             .buffers = network.buffers(),
                             .exact = std::move(exact),
                             .stages = stages,
                             .stage_of = [&](const std::string& name) { return network.stage_of(name); },
                             .frozen = context.plan->frozen,
                             .channels_last = net_.format == at::MemoryFormat::ChannelsLast});
    stages_ = std::max(1, static_cast<int>(stages.size()));
    ModelSpec& spec = net_.tensors->spec();
    spec.task = task_for(context, net_.own_loss != nullptr);
    spec.largest_batch = network.largest_batch();
    spec.divisible = static_cast<std::size_t>(stages_) == spec.segments.size();
    for (int stage = 0; stage < stages_; ++stage)
      spec.divisible = spec.divisible && network.borrowed(stage).empty();
    probe();
    net_.offer_targets();
    if (spec.divisible) spec.find_weights_by_rows();
  });
  net_.threads = std::max(1, context.threads);
}

TorchModel::~TorchModel() {
  if (net_.tensors) net_.withdraw_targets();
}

Staged* TorchModel::staged() {
  if (!staged_) staged_ = std::make_unique<StagedNetwork>(net_);
  return staged_.get();
}

void TorchModel::probe() {
  constexpr std::int64_t kSamples = 2;
  at::NoGradGuard no_grad;
  net_.network->set_mode(Mode::Evaluate);
  const Batch batch = net_.zeros(kSamples);
  std::vector<Flops> flops;  // of each stage
  try {
    Pass pass = start(batch);
    while (pass.stage < stages_) {
      flops.push_back(count_flops([&] { advance(pass, pass.stage + 1); }));
      if (pass.stage < stages_) net_.outputs.push_back(layout_of(pass.activations));
    }
    const at::Tensor& given = pass.activations;
    net_.scored = given.defined() && (!net_.own_loss || net_.gives_logits(given, kSamples));
    loss(pass);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::Data,
                fmt::format("model {} does not take a batch of {} in {}: {}", net_.name,
                            data::describe(net_.shape), c10::toString(net_.compute), reason_of(error)));
  }
  ModelSpec& spec = net_.tensors->spec();
  if (!net_.scored) {  // nothing is known but the loss
    spec.task.counts = 0;
    spec.task.metrics = {};
    spec.task.written_tokens = 0;
  }
  for (std::size_t s = 0; s < spec.segments.size(); ++s) {
    Segment& segment = spec.segments[s];
    if (s < net_.outputs.size()) segment.outputs = net_.outputs[s].elements();
    if (spec.segments.size() == flops.size()) {
      segment.forward_flops = total(flops[s]) / kSamples;  // also by weights that it borrows of another
      continue;
    }
    for (int index : segment.parameters)
      for (const Flops& stage : flops)
        if (auto found =
                stage.find(net_.tensors->parameters()[static_cast<std::size_t>(index)].tensor.data_ptr());
            found != stage.end())
          segment.forward_flops += found->second / kSamples;
  }
}

void TorchModel::advance(Pass& pass, int until) {
  const bool cut = backward_ == Binding::Backward::InPieces && at::GradMode::is_enabled();
  for (; pass.stage < until; ++pass.stage) {
    if (!cut) {
      pass.activations = step(pass, std::move(pass.activations));
      continue;
    }
    at::Tensor inputs = pass.activations.detach();
    if (pass.stage > 0) inputs.requires_grad_(true);
    pass.activations = step(pass, inputs);
    pass.pieces.push_back({inputs, pass.activations});
  }
}

at::Tensor TorchModel::step(Pass& pass, at::Tensor inputs) {
  if (stages_ > 1) return net_.network->forward(pass.stage, std::move(inputs));
  std::vector<at::Tensor> all = pass.batch.inputs;
  all[0] = std::move(inputs);
  if (gives_loss()) all.push_back(net_.as_learnt(pass.batch.labels, net_.compute));
  std::vector<at::Tensor> given = net_.network->run(std::move(all));
  if (given.empty() || !given[0].defined())
    throw Error(net_.network->fault(), fmt::format("model {} must give a tensor, but gave none", net_.name));
  if (!gives_loss()) return std::move(given[0]);
  pass.loss = std::move(given[0]);
  return given.size() > 1 ? std::move(given[1]) : at::Tensor();
}

at::Tensor TorchModel::outputs(Pass& pass) {
  advance(pass, stages_);
  return std::exchange(pass.activations, at::Tensor());
}

Loss TorchModel::loss(Pass& pass) {
  const at::Tensor outputs = this->outputs(pass);
  return gives_loss() ? net_.given_loss(pass.loss, outputs, pass.batch.labels)
                      : net_.loss(outputs, pass.batch.labels);
}

std::vector<int> TorchModel::gradient_order(data::Inputs inputs, data::Values labels) {
  if (staged_ && staged_->divided())
    return {net_.tensors->trainable().rbegin(), net_.tensors->trainable().rend()};
  const RandomStream stream = net_.stream;
  const std::vector<double> values = buffers();
  std::vector<int> order = net_.call("backward", [&] {
    at::AutoGradMode enable(true);
    net_.network->set_mode(Mode::Train);
    net_.tensors->gradients().start_recording();
    try {
      Pass pass = start(net_.batch(inputs, labels, {0, net_.samples_of(labels)}));
      loss(pass).sum.backward();
    } catch (...) {
      net_.tensors->gradients().stop_recording();
      throw;
    }
    return net_.tensors->gradients().stop_recording();
  });
  net_.stream = stream;
  set_buffers(values);
  std::vector<char> seen(net_.tensors->trainable().size(), 0);
  for (int& index : order) {
    seen[static_cast<std::size_t>(index)] = 1;
    index = net_.tensors->trainable()[static_cast<std::size_t>(index)];
  }
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (!seen[i]) order.push_back(net_.tensors->trainable()[i]);
  return order;
}

void TorchModel::check_whole() const {
  TAXON_CHECK(!staged_ || !staged_->divided(), "model ", net_.name, " is divided: its passes are Staged's");
}

void TorchModel::bind(const Binding& binding) {
  TAXON_CHECK(binding.backward == Binding::Backward::Whole || spec().divisible, spec().name,
              " has one piece");
  net_.tensors->bind(binding);
  backward_ = binding.backward;
}

void TorchModel::unbind() {
  net_.tensors->unbind();
  begun_.reset();
  pieces_.reset();
  backward_ = Binding::Backward::Whole;
}

void TorchModel::begin(const StepInput& input) {
  if (begun_) return;
  net_.network->set_mode(Mode::Train);
  net_.tensors->gradients().begin_step(input.gradients);
  const Range share{0, input.samples()};
  begun_ = start(net_.batch(input.inputs, input.labels, part(share, parts_of(input), 0)));
}

void TorchModel::forward(const StepInput& input, int until) {
  check_whole();
  TAXON_CHECK(net_.tensors->gradients().bound(), "bind() comes before the first step");
  if (input.labels.empty() || static_cast<std::size_t>(stages_) != spec().segments.size()) return;
  net_.call("forward", [&] {
    at::AutoGradMode enable(true);
    begin(input);
    advance(*begun_, until);
  });
}

void TorchModel::forward_rows(const StepInput& input, int segment, std::int64_t rows) {
  forward(input, segment);
  if (begun_) net_.call("forward", [&] { net_.network->forward_rows(segment, begun_->activations, rows); });
}

StepOutput TorchModel::forward_backward(const StepInput& input, int from, tensor::Milestones& marks) {
  check_whole();
  TAXON_CHECK(net_.tensors->gradients().bound(), "bind() comes before the first step");
  TAXON_CHECK(input.micro_batches > 0 && input.global_size >= static_cast<std::int64_t>(input.samples()) &&
              input.targets == net_.shape.targets());
  return net_.call("forward and backward", [&] {
    at::AutoGradMode enable(true);
    try {
      if (!pieces_) {
        if (input.labels.empty())
          net_.tensors->gradients().begin_step(input.gradients);
        else
          begin(input);
      }
      net_.tensors->gradients().deliver_to(marks);
      const bool whole = backward_ == Binding::Backward::Whole;
      StepOutput output = whole ? whole_step(input) : piece_of_step(input, from);
      if (from == 0)
        net_.tensors->gradients().end_step();
      else
        net_.tensors->gradients().end_segments(from);
      return output;
    } catch (...) {
      begun_.reset();
      pieces_.reset();
      net_.tensors->gradients().abandon_step();
      throw;
    }
  });
}

StepOutput TorchModel::whole_step(const StepInput& input) {
  const Range share{0, input.samples()};
  const std::size_t parts = share.size == 0 ? 0 : parts_of(input);
  StepOutput output;
  for (std::size_t i = 0; i < parts; ++i) {
    net_.tensors->gradients().begin_micro_batch(i + 1 == parts);
    Pass pass = i == 0 ? *std::exchange(begun_, {})
                       : start(net_.batch(input.inputs, input.labels, part(share, parts, i)));
    const Loss loss = this->loss(pass);
    output += {loss.sum.item<double>(), loss.counts};
    net_.tensors->gradients().backward(loss.sum / input.global_labels());
  }
  return output;
}

StepOutput TorchModel::piece_of_step(const StepInput& input, int from) {
  TAXON_CHECK(input.micro_batches == 1, input.micro_batches, " micro-batches in pieces");
  if (!pieces_) {
    pieces_.emplace();
    net_.tensors->gradients().begin_micro_batch(true);
    if (begun_) {
      Pass pass = *std::exchange(begun_, {});
      const Loss loss = this->loss(pass);
      pieces_->output = {loss.sum.item<double>(), loss.counts};
      pieces_->loss = loss.sum / input.global_labels();
      pieces_->pieces = std::move(pass.pieces);
    }
  }
  auto& left = pieces_->pieces;
  while (static_cast<int>(left.size()) > from) {
    const Piece piece = std::move(left.back());
    left.pop_back();
    const at::Tensor gradient = std::exchange(pieces_->gradient, at::Tensor());
    if (pieces_->loss.defined())
      pieces_->gradient = net_.tensors->gradients().backward(std::exchange(pieces_->loss, at::Tensor()), {},
                                                             {piece.inputs})[0];
    else if (gradient.defined() && piece.outputs.grad_fn())
      pieces_->gradient = net_.tensors->gradients().backward(piece.outputs, gradient, {piece.inputs})[0];
  }
  const StepOutput output = pieces_->output;
  if (from == 0) pieces_.reset();
  return output;
}

StepOutput TorchModel::evaluate(data::Inputs inputs, data::Values labels) {
  check_whole();
  if (labels.empty()) return {};
  return net_.call("evaluation", [&] {
    at::NoGradGuard no_grad;
    net_.network->set_mode(Mode::Evaluate);
    Pass pass = start(net_.batch(inputs, labels, {0, net_.samples_of(labels)}));
    const Loss loss = this->loss(pass);
    return StepOutput{loss.sum.item<double>(), loss.counts};
  });
}

std::vector<std::int64_t> TorchModel::write(std::span<const std::int64_t> prompt, int count,
                                            std::uint64_t seed) {
  if (net_.shape.input_type != DType::Int64 || net_.shape.target != net_.shape.input) return {};
  if (gives_loss() || !net_.scored || !net_.shape.more.empty()) return {};
  if (staged_ && staged_->divided()) return {};
  const RandomStream before = net_.stream;
  net_.stream = RandomStream(seed);
  const auto context = static_cast<std::size_t>(net_.shape.elements());
  std::vector<std::int64_t> text(prompt.begin(), prompt.end());
  net_.call("writing", [&] {
    at::NoGradGuard no_grad;
    net_.network->set_mode(Mode::Evaluate);
    for (int i = 0; i < count; ++i) {
      // What comes behind the last token is not looked at, whatever it is.
      const std::size_t seen = std::min(text.size(), context);
      std::vector<std::int64_t> window(text.end() - static_cast<std::ptrdiff_t>(seen), text.end());
      window.resize(context, 0);
      Pass pass = start({{at::from_blob(window.data(), {1, net_.shape.elements()}, at::kLong)}, {}});
      const at::Tensor logits = net_.checked_logits(outputs(pass), 1);
      const at::Tensor last = logits[static_cast<std::int64_t>(seen) - 1].to(at::kFloat);
      text.push_back(at::multinomial(last.softmax(0), 1).item<std::int64_t>());
    }
  });
  net_.stream = before;
  text.erase(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(prompt.size()));
  return text;
}

std::unique_ptr<Model> build_script(const ModelContext& context) {
  const std::string& path = context.plan->torchscript;
  return std::make_unique<TorchModel>(std::filesystem::path(path).stem().string(), context,
                                      [&] { return load_script(path, returns_of(*context.plan)); });
}
std::unique_ptr<Model> build_exported(const ModelContext& context) {
  const std::string& path = context.plan->name;
  return std::make_unique<TorchModel>(std::filesystem::path(path).stem().string(), context, [&] {
    return load_exported(path, context.shape, returns_of(*context.plan));
  });
}

}  // namespace taxon::model
