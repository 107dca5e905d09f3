#include "model/torch/splitter.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/module.h>

#include "base/error.h"

namespace taxon::model {

std::vector<const parallel::SplitRow*> Splitter::rows() const {
  std::vector<const parallel::SplitRow*> rows;
  for (std::span<const parallel::SplitRow> table : {division_.own_splits, parallel::split_table()})
    for (const parallel::SplitRow& row : table)
      if (&find(row.name) == &row) rows.push_back(&row);
  return rows;
}

void Splitter::choose(std::vector<parallel::SplitCandidate> layers) {
  for (parallel::SplitCandidate& layer : layers)
    if (const auto named = division_.splits.find(layer.name); named != division_.splits.end())
      layer.rows = {&find(named->second)};
  const parallel::SplitChoiceInput input{.members = members(),
                                         .replicas = division_.replicas,
                                         .in_strips = division_.in_strips,
                                         .samples = static_cast<double>(division_.samples),
                                         .element_bytes = static_cast<double>(element_bytes_)};
  const auto choices = parallel::choose_splits(layers, input);
  for (std::size_t i = 0; i < layers.size(); ++i) chosen_[layers[i].name] = choices[i].row;
  split_.account = parallel::describe(layers, choices, input);
}

const parallel::SplitRow* Splitter::wanted(const std::string& layer) {
  asked_.insert(layer);
  const auto found = division_.splits.find(layer);
  if (found != division_.splits.end()) return &find(found->second);
  const auto chosen = chosen_.find(layer);
  return chosen == chosen_.end() ? nullptr : chosen->second;
}

at::Tensor Splitter::cut(const std::string& layer, torch::nn::Module& module, const parallel::SplitRow& row) {
  const std::vector<at::Tensor> parameters = module.parameters(/*recurse=*/false);
  const std::vector<at::Tensor> buffers = module.buffers(/*recurse=*/false);
  if (!row.by_samples()) return cut(layer, parameters, buffers, row);
  take_samples(layer, parameters, buffers.size());
  return {};
}

at::Tensor Splitter::cut(const std::string& layer, const std::vector<at::Tensor>& parameters,
                         const std::vector<at::Tensor>& buffers, const parallel::SplitRow& row) {
  std::vector<at::Tensor> tensors = parameters;
  tensors.insert(tensors.end(), buffers.begin(), buffers.end());
  at::Tensor whole;
  bool has_matrix = false, refused = false;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || tensor.dim() == 0) continue;
    has_matrix = has_matrix || tensor.dim() > 1;
    const int dimension = cut_dimension(tensor, row);
    if (dimension < 0) {
      if (tensor.dim() == 1) whole = tensor;
      continue;
    }
    const std::int64_t extent = tensor.size(dimension);
    if (extent % members() != 0 && !refused)
      refuse(fmt::format("{} has {} {}, which {} members can't share equally", layer, extent,
                         dimension == 0 ? "outputs" : "inputs", members()));
    refused = refused || extent % members() != 0;  // said once for a layer
    cut_blocks(tensor, dimension, 1);
  }
  const bool takes = has_matrix ? row.of_matrices >= 0 : row.of_matrices < 0 && row.of_vectors >= 0;
  if (!takes && (row.input != parallel::kReplicated || row.output != parallel::kReplicated))
    refuse(fmt::format("{} can't be split by {}", layer, row.name));
  return row.output == parallel::kPartial ? whole : at::Tensor();
}

void Splitter::take_samples(const std::string& layer, const std::vector<at::Tensor>& parameters,
                            std::size_t statistics) {
  if (statistics > 0)
    refuse(fmt::format("{} keeps statistics of its samples, of which a member would see some alone", layer));
  for (const at::Tensor& parameter : parameters)
    if (parameter.defined()) partial(parameter);
}

void Splitter::keep_whole(const NetworkStep& step) {
  if (step.row->by_samples())
    take_samples(step.name, step.parameters, 0);
  else if (step.row->input != parallel::kReplicated || step.row->output != parallel::kReplicated)
    refuse(fmt::format("{} can't be split by {}", step.name, step.row->name));
}

NetworkSplit Splitter::finish(std::vector<std::vector<NetworkStep>> stages) {
  for (const auto& [layer, row] : division_.splits)
    if (!asked_.contains(layer))
      refuse(fmt::format("there is no layer {} to split by {}; there are {}", layer, row,
                         fmt::join(asked_, ", ")));
  for (const at::Tensor& tensor : split_.partial) refuse_mixed(tensor, stages);
  if (!reasons_.empty())
    throw Error(ErrorKind::Usage, fmt::format("model {} can't be divided over {} members: {}", model_,
                                              members(), fmt::join(reasons_, "; ")));
  split_.stages = std::move(stages);
  return std::move(split_);
}

void Splitter::refuse_mixed(const at::Tensor& tensor, const std::vector<std::vector<NetworkStep>>& stages) {
  const NetworkStep* of_samples = nullptr;
  const NetworkStep* of_all = nullptr;
  for (const auto& steps : stages)
    for (const NetworkStep& step : steps)
      for (const at::Tensor& read : step.parameters)
        if (read.is_same(tensor))
          (step.row->weight_gradient == parallel::kPartial ? of_samples : of_all) = &step;
  if (of_samples && of_all)
    refuse(fmt::format("{}, split by {}, and {}, split by {}, read one weight; split them alike",
                       of_samples->name, of_samples->row->name, of_all->name, of_all->row->name));
}

int cut_dimension(const at::Tensor& tensor, const parallel::SplitRow& row) {
  if (!tensor.defined() || tensor.dim() == 0) return -1;
  return tensor.dim() > 1 ? row.of_matrices : row.of_vectors;
}

at::Tensor part_of(const TensorCut& cut, const Division& division) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& block : cut.tensor.detach().chunk(cut.blocks, cut.dimension))
    parts.push_back(block.chunk(division.members, cut.dimension)[static_cast<std::size_t>(division.member)]);
  return at::cat(parts, cut.dimension).contiguous();
}

at::Tensor with_bias_once(at::Tensor sum, const at::Tensor& bias, int member) {
  if (!bias.defined() || member == 0) return sum;
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(sum.dim()), 1);
  sizes[sum.dim() == 4 ? 1 : sizes.size() - 1] = bias.size(0);
  return sum.sub_(bias.detach().view(sizes));
}

}  // namespace taxon::model
