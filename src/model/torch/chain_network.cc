#include "model/torch/chain_network.h"

#include <fmt/format.h>

#include <algorithm>

namespace taxon::model {
namespace {

using parallel::find_split;
using parallel::SplitRow;

using parallel::kByFeatures;
using parallel::kReplicated;

/// The first row that the stage can have with such ends; null: none.
template <class Fits>
const SplitRow* row_that(const ChainStage& stage, Fits&& fits) {
  const auto row =
      std::find_if(stage.rows.begin(), stage.rows.end(), [&](const SplitRow* r) { return fits(*r); });
  return row == stage.rows.end() ? nullptr : *row;
}

bool takes_parts(const SplitRow& row) { return row.input == kByFeatures; }
bool makes_parts(const SplitRow& row) { return row.input == kReplicated && row.output == kByFeatures; }
bool passes_parts(const SplitRow& row) { return takes_parts(row) && row.output == kByFeatures; }
bool ends_parts(const SplitRow& row) { return takes_parts(row) && row.output != kByFeatures; }

/// Whether features that come to the stage in parts come to a layer so.
bool lead_to_layer(const std::vector<ChainStage>& stages, std::size_t stage) {
  while (stage < stages.size() && row_that(stages[stage], passes_parts)) ++stage;
  return stage < stages.size() && row_that(stages[stage], ends_parts);
}

const SplitRow& choose(const std::vector<ChainStage>& stages, std::size_t stage, const SplitRow& before) {
  const SplitRow* row = nullptr;
  if (before.output == kByFeatures)
    row = row_that(stages[stage], takes_parts);
  else if (lead_to_layer(stages, stage + 1))
    row = row_that(stages[stage], makes_parts);
  return row ? *row : *stages[stage].otherwise;
}

std::vector<parallel::SplitCandidate> candidates(const std::vector<ChainStage>& stages, int members) {
  std::vector<parallel::SplitCandidate> layers;
  for (const ChainStage& stage : stages) {
    parallel::SplitCandidate& layer =
        layers.emplace_back(parallel::SplitCandidate{.name = stage.name,
                                                     .inputs = stage.inputs,
                                                     .outputs = stage.outputs,
                                                     .needs_sums = stage.block || stage.has_rest});
    layer.inside = stage.inside;
    for (const at::Tensor& tensor : stage.parameters) layer.weights += static_cast<double>(tensor.numel());
    const auto divides = [&](const SplitRow* row) {
      return std::all_of(stage.parameters.begin(), stage.parameters.end(), [&](const at::Tensor& tensor) {
        const int dimension = cut_dimension(tensor, *row);
        return dimension < 0 || tensor.size(dimension) % members == 0;
      });
    };
    for (const SplitRow* row : stage.rows)
      if (stage.block || divides(row)) layer.rows.push_back(row);
    if (layer.rows.empty()) layer.rows.push_back(&find_split("none"));
  }
  return layers;
}

}  // namespace

NetworkSplit ChainNetwork::split(Splitter splitter) {
  if (const std::string way_out = dropout(); !way_out.empty())
    splitter.refuse(fmt::format("members would drop different activations; {}", way_out));
  const std::vector<ChainStage> stages = chain(splitter);
  if (splitter.chooses()) splitter.choose(candidates(stages, splitter.members()));
  std::vector<std::vector<NetworkStep>> steps;
  std::string whole;
  const SplitRow* before = &find_split("none");
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const SplitRow* wanted = stages[stage].block ? nullptr : splitter.wanted(stages[stage].name);
    const SplitRow& row = wanted ? *wanted : choose(stages, stage, *before);
    if (row.input == kReplicated && row.output == kReplicated && !stages[stage].whole.empty())
      whole += fmt::format("{}{} ({})", whole.empty() ? "" : ", ", stages[stage].name, stages[stage].whole);
    steps.push_back(split_stage(stages[stage], row, splitter));
    before = steps.back().back().row;
  }
  if (!whole.empty()) splitter.tell("whole on every member: " + whole);
  member_ = splitter.member();
  return splitter.finish(std::move(steps));
}

std::vector<NetworkStep> ChainNetwork::split_stage(const ChainStage& stage, const SplitRow& row,
                                                   Splitter& splitter) {
  Split& split = splits_.emplace_back();
  std::vector<NetworkStep> steps;
  split.block = stage.block;
  if (split.block) {
    steps = split.block->split(stage.name, splitter);
  } else {
    const auto refused = stage.refused.find(std::string(row.name));
    if (refused != stage.refused.end())
      splitter.refuse(fmt::format("{} can't be split by {}: {}", stage.name, row.name, refused->second));
    else if (row.by_samples())
      splitter.take_samples(stage.name, stage.parameters, stage.statistics);
    else
      split.bias = splitter.cut(stage.name, stage.parameters, stage.buffers, row);
    steps = {{stage.name, &row, stage.parameters}};
  }
  const parallel::Placement left = steps.back().row->output;
  const bool fits = left == kByFeatures ? stage.rest_takes_parts : left != parallel::kPartial;
  if (!fits && stage.has_rest) steps.push_back({stage.name + ".rest", &find_split("none"), {}});
  split.steps = static_cast<int>(steps.size());
  return steps;
}

at::Tensor ChainNetwork::forward(int stage, int step, at::Tensor inputs, const at::Tensor& entering) {
  const Split& split = splits_[static_cast<std::size_t>(stage)];
  if (split.block)
    inputs = split.block->step(step, std::move(inputs), entering);
  else if (step == 0)
    inputs = with_bias_once(to_layer(stage, std::move(inputs)), split.bias, member_);
  return step + 1 < split.steps ? inputs : behind_layer(stage, std::move(inputs));
}

}  // namespace taxon::model
