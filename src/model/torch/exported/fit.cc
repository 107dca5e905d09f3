#include "model/torch/exported/fit.h"

#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/torch/exported/fail.h"
#include "model/torch/exported/weights.h"

namespace taxon::model::exported {
namespace {

/// "batch, 1, 28, 28" as a list.
std::vector<std::string> batch_of(const std::vector<std::int64_t>& extents) {
  std::vector<std::string> words = {"batch"};
  for (const std::int64_t extent : extents) words.push_back(fmt::format("{}", extent));
  return words;
}

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

bool same_kind(at::ScalarType type, DType of) {
  if (of == DType::UInt8) return type == at::kBool;
  return of == DType::Int64 ? at::isIntegralType(type, /*includeBool=*/false) : at::isFloatingType(type);
}

/// What a program is given of a batch.
struct Given {
  std::string name;  // "inputs"
  data::Part part;
};

/// Throws Error{Data} unless the program takes that.
void require_fit(const TensorMeta& input, const Given& given) {
  const auto type = scalar_type(input.type);
  if (input.sizes.empty() || input.sizes[0])
    fail(
        fmt::format("takes {} of shape {} only, all of one batch size: export it with dynamic_shapes=({{0: "
                    "torch.export.Dim(\"batch\")}},)",
                    given.name, shape_text(input)));
  bool fits = input.sizes.size() == given.part.extents.size() + 1;
  for (std::size_t i = 1; fits && i < input.sizes.size(); ++i)
    fits = !input.sizes[i] || *input.sizes[i] == given.part.extents[i - 1];
  if (!fits)
    fail(fmt::format("takes {} of shape {}, and the data set's are [{}]", given.name, shape_text(input),
                     fmt::join(batch_of(given.part.extents), ", ")));
  if (!same_kind(type, given.part.type))
    fail(fmt::format("takes {} of type {}, and the data set's are {}", given.name, c10::toString(type),
                     data::describe(given.part.type)));
}

}  // namespace

std::vector<TensorMeta> user_inputs(const Graph& graph) {
  std::vector<TensorMeta> inputs;
  for (const Input& input : graph.inputs)
    if (input.kind == Input::Kind::User) inputs.push_back(meta_of(graph, input.value));
  return inputs;
}

void require_fit(const Graph& graph, const data::SampleShape& shape, plan::ModelReturns returns) {
  const bool has_loss = returns == plan::ModelReturns::Loss;
  std::vector<Given> given;
  for (const data::Part& part : shape.inputs())
    given.push_back({given.empty() ? "inputs" : fmt::format("inputs {}", given.size() + 1), part});
  if (has_loss) given.push_back({"labels", {shape.target, shape.target_type}});
  const std::vector<TensorMeta> inputs = user_inputs(graph);
  if (inputs.size() != given.size())
    fail(fmt::format("takes {} tensors, and a batch has {}: {}{}", inputs.size(), given.size(),
                     data::describe(shape), has_loss ? "" : ", which only a loss is given (model.returns)"));
  for (std::size_t i = 0; i < inputs.size(); ++i) require_fit(inputs[i], given[i]);
  if (graph.outputs.empty()) fail("gives nothing");
  const TensorMeta& output = meta_of(graph, graph.outputs[0]);
  if (has_loss && !output.sizes.empty())
    fail(fmt::format("gives a tensor of shape {} where model.returns says a loss, one number",
                     shape_text(output)));
  if (has_loss || shape.has_real_targets()) return;  // logits, or numbers, are tried before the run
  std::vector<std::int64_t> wanted = shape.target;
  wanted.push_back(shape.classes);
  bool gives_logits = output.sizes.size() == wanted.size() + 1;
  for (std::size_t i = 1; gives_logits && i < output.sizes.size(); ++i)
    gives_logits = !output.sizes[i] || *output.sizes[i] == wanted[i - 1];
  if (!gives_logits)
    fail(fmt::format("gives logits of shape {}, and the data set wants [{}]", shape_text(output),
                     fmt::join(batch_of(wanted), ", ")));
}

}  // namespace taxon::model::exported
