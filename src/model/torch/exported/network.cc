#include "model/torch/network.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/torch/exported/interpreter.h"
#include "model/torch/exported/program.h"
#include "model/torch/exported/weights.h"

namespace taxon::model {
namespace {

using exported::Graph;
using exported::Input;
using exported::TensorMeta;

[[noreturn]] void fail(const std::string& why) { throw Error(ErrorKind::Data, why); }

const TensorMeta& meta_of(const Graph& graph, const std::string& value) {
  const auto meta = graph.tensors.find(value);
  if (meta == graph.tensors.end())
    fail(fmt::format("its graph is damaged: it does not say what {} is", value));
  return meta->second;
}

/// "[batch, 1, 28, 28]"
std::string shape_text(const TensorMeta& meta) {
  std::vector<std::string> extents;
  for (std::size_t i = 0; i < meta.sizes.size(); ++i)
    extents.push_back(meta.sizes[i] ? fmt::format("{}", *meta.sizes[i]) : i == 0 ? "batch" : meta.symbols[i]);
  return fmt::format("[{}]", fmt::join(extents, ", "));
}

const std::string& single_input(const Graph& graph) {
  const std::string* found = nullptr;
  int count = 0;
  for (const Input& input : graph.inputs)
    if (input.kind == Input::Kind::User) {
      found = &input.value;
      ++count;
    }
  if (count != 1)
    fail(fmt::format("takes {} tensors, and a data set gives it one, the batch of inputs", count));
  return *found;
}

/// Throws Error{Data} unless samples of that shape give logits of that many classes.
void require_fit(const Graph& graph, const data::SampleShape& shape) {
  const TensorMeta& input = meta_of(graph, single_input(graph));
  if (input.sizes.empty() || input.sizes[0])
    fail(fmt::format(
        "takes inputs of shape {} only, all of one batch size: export it with dynamic_shapes=({{0: "
        "torch.export.Dim(\"batch\")}},)",
        shape_text(input)));
  bool fits = input.sizes.size() == shape.input.size() + 1;
  for (std::size_t i = 1; fits && i < input.sizes.size(); ++i)
    fits = !input.sizes[i] || *input.sizes[i] == shape.input[i - 1];
  if (!fits)
    fail(fmt::format("takes inputs of shape {}, and the data set's are [batch, {}]", shape_text(input),
                     fmt::join(shape.input, ", ")));
  if (!at::isFloatingType(exported::scalar_type(input.type)))
    fail(fmt::format("takes inputs of type {}, and the data set's are numbers with fractions",
                     c10::toString(exported::scalar_type(input.type))));
  if (graph.outputs.size() != 1)
    fail(fmt::format("gives {} tensors rather than one of logits", graph.outputs.size()));
  const TensorMeta& output = meta_of(graph, graph.outputs[0]);
  const bool gives_logits =
      output.sizes.size() == 2 && (!output.sizes[1] || *output.sizes[1] == shape.classes);
  if (!gives_logits)
    fail(fmt::format("gives logits of shape {}, and the data set wants [batch, {}]", shape_text(output),
                     shape.classes));
}

/// A program out of a file of torch.export.
class ExportedNetwork final : public Network {
 public:
  ExportedNetwork(exported::Program program, const data::SampleShape& shape)
      : program_(std::move(program)), interpreter_(std::move(program_.graph)) {
    const Graph& graph = interpreter_.graph();
    require_fit(graph, shape);
    const TensorMeta& input = meta_of(graph, single_input(graph));
    type_ = exported::scalar_type(input.type);
    if (const auto range = graph.symbols.find(input.symbols[0]); range != graph.symbols.end())
      batch_ = range->second;
  }

  std::vector<NamedTensor> parameters() const override { return program_.parameters; }
  std::vector<NamedTensor> buffers() const override { return program_.buffers; }
  std::vector<std::string> stages() const override { return {}; }
  at::Tensor forward(int, at::Tensor inputs) override {
    const std::int64_t size = inputs.size(0);
    if (batch_.max && size > *batch_.max)
      fail(fmt::format(
          "the program was exported for batches of at most {}, and this one has {}: export it with a "
          "larger Dim(max=...), or train with more micro-batches",
          *batch_.max, size));
    return interpreter_.run(program_.stored, std::span(&inputs, 1), mode_).at(0);
  }
  void set_mode(Mode mode) override { mode_ = mode; }
  void cast(at::ScalarType type) override {
    cast_floating(program_.parameters, type);
    cast_floating(program_.buffers, type);
    std::vector<NamedTensor> constants;
    for (const at::Tensor& constant : program_.constants) constants.push_back({"", constant});
    cast_floating(constants, type);
    interpreter_.compute_in(type_, type);
  }
  void offer(const at::Tensor&, GradientTarget*) override {}
  ErrorKind fault() const override { return ErrorKind::Data; }

 private:
  exported::Program program_;
  exported::Interpreter interpreter_;
  Mode mode_ = Mode::Train;
  at::ScalarType type_ = at::kFloat;  // of its inputs, when it was exported
  exported::SymbolRange batch_;
};

}  // namespace

std::unique_ptr<Network> load_exported(const std::string& path, const data::SampleShape& shape) {
  try {
    return std::make_unique<ExportedNetwork>(exported::read_program(path), shape);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("model.name: {} {}", path, error.what()),
                {.operation = "load", .tensor = path});
  }
}

}  // namespace taxon::model
