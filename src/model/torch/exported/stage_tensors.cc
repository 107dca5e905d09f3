#include "model/torch/exported/stage_tensors.h"

#include <algorithm>

#include "model/torch/exported/stage_names.h"

namespace taxon::model::exported {
namespace {

/// Each tensor once, under its first name.
std::vector<NamedTensor> distinct(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> list;
  for (const NamedTensor& item : tensors)
    if (std::none_of(list.begin(), list.end(),
                     [&](const NamedTensor& other) { return other.tensor.is_same(item.tensor); }))
      list.push_back(item);
  return list;
}

}  // namespace

StageTensors::StageTensors(const Program& program, std::span<const Interpreter::Stage> stages)
    : stages_(stages.size()) {
  std::vector<std::vector<NamedTensor>> own(stages.size());
  std::map<const at::TensorImpl*, int> owners;
  const auto add = [&](const NamedTensor& item, std::vector<NamedTensor> Tensors::*list, bool is_parameter) {
    const at::TensorImpl* const tensor = item.tensor.unsafeGetTensorImpl();
    owners[tensor] = 0;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const std::vector<std::uint32_t>& reads = stages[s].all.stored;
      if (std::none_of(reads.begin(), reads.end(),
                       [&](std::uint32_t i) { return program.stored[i].is_same(item.tensor); }))
        continue;
      const bool is_first = readers_[tensor]++ == 0;
      (stages_[s].*list).push_back(item);
      if (is_first) owners[tensor] = static_cast<int>(s);
      if (is_first && is_parameter) own[s].push_back(item);
      if (!is_first && is_parameter) stages_[s].borrowed.push_back(item.tensor);
    }
    if (readers_[tensor] == 0) (stages_[0].*list).push_back(item);
  };
  for (const NamedTensor& item : distinct(program.parameters)) add(item, &Tensors::parameters, true);
  for (const NamedTensor& item : distinct(program.buffers)) add(item, &Tensors::buffers, false);
  for (const auto* list : {&program.parameters, &program.buffers})
    for (const NamedTensor& item : *list) stage_of_[item.name] = owners[item.tensor.unsafeGetTensorImpl()];
  names_ = stage_names(own);
}

int StageTensors::stage_of(const std::string& tensor) const {
  const auto stage = stage_of_.find(tensor);
  return stage == stage_of_.end() ? -1 : stage->second;
}

const NamedTensor* StageTensors::shared(const std::vector<NamedTensor>& tensors) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const NamedTensor& item) {
    return readers_.at(item.tensor.unsafeGetTensorImpl()) != 1;
  });
  return found == tensors.end() ? nullptr : &*found;
}

}  // namespace taxon::model::exported
