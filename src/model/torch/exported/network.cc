#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "model/torch/chain_network.h"
#include "model/torch/exported/fail.h"
#include "model/torch/exported/fit.h"
#include "model/torch/exported/interpreter.h"
#include "model/torch/exported/program.h"
#include "model/torch/exported/split_trial.h"
#include "model/torch/exported/stage_tensors.h"
#include "model/torch/exported/weights.h"

namespace taxon::model {
namespace {

using exported::fail;
using exported::Graph;
using exported::TensorMeta;

/// A program out of a file of torch.export.
class ExportedNetwork final : public ChainNetwork {
 public:
  ExportedNetwork(exported::Program program, const data::SampleShape& shape, plan::ModelReturns returns)
      : program_(std::move(program)), interpreter_(std::move(program_.graph)), returns_(returns) {
    const Graph& graph = interpreter_.graph();
    exported::require_fit(graph, shape, returns);
    const std::vector<TensorMeta> inputs = exported::user_inputs(graph);
    for (const TensorMeta& input : inputs) types_.push_back(exported::scalar_type(input.type));
    if (const auto range = graph.symbols.find(inputs[0].symbols[0]); range != graph.symbols.end())
      batch_ = range->second;
    // In which it computes: inputs may be tokens.
    for (const NamedTensor& parameter : program_.parameters)
      if (!type_ && parameter.tensor.is_floating_point()) type_ = parameter.tensor.scalar_type();
    cut(returns);
  }

  std::vector<NamedTensor> parameters() const override { return program_.parameters; }
  std::vector<NamedTensor> buffers() const override { return program_.buffers; }
  std::vector<std::string> stages() const override { return tensors_.names(); }
  std::string undivided() const override { return undivided_; }
  int stage_of(const std::string& tensor) const override { return tensors_.stage_of(tensor); }
  std::vector<at::Tensor> borrowed(int stage) const override {
    return stages_.empty() ? std::vector<at::Tensor>() : tensors_.borrowed(stage);
  }
  at::Tensor forward(int stage, at::Tensor inputs) override {
    if (stages_.empty()) return run({std::move(inputs)}).front();
    return pass(stage, stage_at(stage).all, std::move(inputs));
  }
  plan::ModelReturns returns() const override { return returns_; }
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs) override {
    check_inputs(inputs);
    return interpreter_.run(program_.stored, inputs, mode_);
  }
  void set_mode(Mode mode) override { mode_ = mode; }
  void cast(at::ScalarType type) override {
    cast_floating(program_.parameters, type);
    cast_floating(program_.buffers, type);
    std::vector<NamedTensor> constants;
    for (const at::Tensor& constant : program_.constants) constants.push_back({"", constant});
    cast_floating(constants, type);
    interpreter_.compute_in(type_.value_or(at::kFloat), type);
  }
  void offer(const at::Tensor&, GradientTarget*) override {}
  std::int64_t largest_batch() const override { return batch_.max.value_or(0); }
  ErrorKind fault() const override { return ErrorKind::Data; }

 protected:
  std::vector<ChainStage> chain(const Splitter& splitter) override {
    at::NoGradGuard no_grad;
    mode_ = Mode::Evaluate;
    const exported::SplitTrial trial(interpreter_, type_.value_or(at::kFloat), stored(), splitter.members());
    const auto elements = [](const at::Tensor& tensor) {
      return static_cast<double>(tensor.numel() / tensor.size(0));
    };
    std::vector<ChainStage> chain;
    at::Tensor passing = at::cat(std::vector<at::Tensor>(2, splitter.sample()));
    for (int stage = 0; stage < static_cast<int>(stages_.size()); ++stage) {
      chain.push_back(described(stage));
      find_rows(chain.back(), stage, splitter, trial, passing);
      chain.back().inputs = elements(passing);
      chain.back().outputs = elements(to_layer(stage, passing));
      passing = pass(stage, stage_at(stage).all, passing);
    }
    return chain;
  }
  std::string dropout() const override {
    const std::string place = interpreter_.draws();
    return place.empty() ? "" : "export it without " + place;
  }
  at::Tensor to_layer(int stage, at::Tensor inputs) override {
    const Stage& part = stage_at(stage);
    return pass(stage, part.has_layer() ? part.layer : part.all, std::move(inputs));
  }
  at::Tensor behind_layer(int stage, at::Tensor outputs) override {
    const Stage& part = stage_at(stage);
    if (!part.has_rest()) return outputs;
    const std::vector<at::Tensor> taken = {std::move(outputs)};
    return interpreter_.run(part.rest, program_.stored, taken, mode_).front();
  }

 private:
  using Stage = exported::Interpreter::Stage;

  const Stage& stage_at(int stage) const { return stages_[static_cast<std::size_t>(stage)]; }
  at::Tensor pass(int stage, const exported::Interpreter::Part& part, at::Tensor inputs) const {
    std::vector<at::Tensor> taken = {std::move(inputs)};
    if (stage == 0) check_inputs(taken);
    return interpreter_.run(part, program_.stored, taken, mode_).front();
  }
  /// The stored tensors, as the trial of splits tells them apart.
  std::vector<exported::SplitTrial::Stored> stored() const {
    using Kind = exported::SplitTrial::Kind;
    std::vector<exported::SplitTrial::Stored> list;
    for (const at::Tensor& tensor : program_.stored)
      list.push_back({tensor, has(program_.parameters, tensor) ? Kind::Parameter
                              : has(program_.buffers, tensor)  ? Kind::Buffer
                                                               : Kind::Constant});
    return list;
  }
  ChainStage described(int stage) const {
    ChainStage described;
    described.name = tensors_.names()[static_cast<std::size_t>(stage)];
    for (const NamedTensor& item : tensors_.parameters(stage)) described.parameters.push_back(item.tensor);
    for (const NamedTensor& item : tensors_.buffers(stage)) described.buffers.push_back(item.tensor);
    described.statistics = interpreter_.changes_stored(stage_at(stage).all);
    described.has_rest = stage_at(stage).has_rest();
    return described;
  }
  /// A stage that can't have parts of a layer is left to samples. `inputs`: of two samples.
  void find_rows(ChainStage& described, int stage, const Splitter& splitter,
                 const exported::SplitTrial& trial, const at::Tensor& inputs) const {
    const NamedTensor* const tied = tensors_.shared(tensors_.parameters(stage));
    const NamedTensor* const shared = tied ? tied : tensors_.shared(tensors_.buffers(stage));
    const std::string not_alone = shared ? shared->name + " is not read by it alone" : "";
    const parallel::SplitRow& samples = splitter.find("samples");
    const parallel::SplitRow& none = splitter.find("none");
    std::string not_by_samples;
    bool has_parts = false;
    for (const parallel::SplitRow* row : splitter.rows()) {
      if (row == &none) continue;
      const std::string why =
          row->divides_weights && shared ? not_alone : trial.refusal(stage_at(stage), *row, inputs);
      if (!why.empty()) {
        described.refused[std::string(row->name)] = why;
        if (row->by_samples()) not_by_samples = why;
        continue;
      }
      has_parts = has_parts || row->divides_weights;
      // Whoever reads the weight too may be split otherwise.
      if (!tied || !row->by_samples()) described.rows.push_back(row);
    }
    const bool has_samples = std::count(described.rows.begin(), described.rows.end(), &samples) > 0;
    if (!has_samples) described.rows.push_back(&none);
    if (has_samples && !has_parts) described.otherwise = &samples;
    described.whole = has_parts ? "its neighbours leave it no parts" : tied ? not_alone : not_by_samples;
  }
  /// Throws Error{Data} for a larger batch than it was exported for; whole numbers get its width.
  void check_inputs(std::vector<at::Tensor>& inputs) const {
    const std::int64_t size = inputs.at(0).size(0);
    if (batch_.max && size > *batch_.max)
      fail(fmt::format(
          "the program was exported for batches of at most {}, and this one has {}: export it with a "
          "larger Dim(max=...), or train with more micro-batches",
          *batch_.max, size));
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (!at::isFloatingType(types_[i])) inputs[i] = inputs[i].to(types_[i]);
  }
  void cut(plan::ModelReturns returns) {
    if (returns == plan::ModelReturns::Loss)
      undivided_ = ", since it reads labels beside what its layers give";
    else if (types_.size() > 1)
      undivided_ = ", since any of its layers may read any of its inputs";
    else if (type_)
      stages_ = interpreter_.cut(program_.stored, *type_);
    if (stages_.size() < 2) {
      stages_.clear();
      if (undivided_.empty())
        undivided_ = ", since nowhere a single tensor of the batch leads from layers to others";
      return;
    }
    tensors_ = exported::StageTensors(program_, stages_);
  }
  static bool has(const std::vector<NamedTensor>& list, const at::Tensor& tensor) {
    return std::any_of(list.begin(), list.end(),
                       [&](const NamedTensor& item) { return item.tensor.is_same(tensor); });
  }

  exported::Program program_;
  exported::Interpreter interpreter_;
  const plan::ModelReturns returns_;
  Mode mode_ = Mode::Train;
  std::optional<at::ScalarType> type_;  // of its parameters, when it was exported
  std::vector<at::ScalarType> types_;   // of its inputs, then
  exported::SymbolRange batch_;
  std::vector<Stage> stages_;       // empty: it is one
  exported::StageTensors tensors_;  // of the stages
  std::string undivided_;
};

}  // namespace

std::unique_ptr<Network> load_exported(const std::string& path, const data::SampleShape& shape,
                                       plan::ModelReturns returns) {
  try {
    return std::make_unique<ExportedNetwork>(exported::read_program(path), shape, returns);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("model.name: {} {}", path, error.what()),
                {.operation = "load", .tensor = path});
  }
}

}  // namespace taxon::model
