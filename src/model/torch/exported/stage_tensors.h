#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/torch/exported/interpreter.h"
#include "model/torch/exported/program.h"

namespace taxon::model::exported {

/// The parameters and buffers of a program's stages. A tensor is the first stage's that reads it; what none
/// reads is the first one's of all.
class StageTensors {
 public:
  StageTensors() = default;  // of no stages
  StageTensors(const Program& program, std::span<const Interpreter::Stage> stages);

  /// Of the stages, by what is their own.
  const std::vector<std::string>& names() const { return names_; }
  /// By a tensor's name; -1: there are no stages.
  int stage_of(const std::string& tensor) const;
  /// That the stage reads, its own and others', each once.
  const std::vector<NamedTensor>& parameters(int stage) const { return at(stage).parameters; }
  const std::vector<NamedTensor>& buffers(int stage) const { return at(stage).buffers; }
  /// Parameters of other stages among them.
  const std::vector<at::Tensor>& borrowed(int stage) const { return at(stage).borrowed; }
  /// One of a list's that this stage is not the only one to read; null: there is none.
  const NamedTensor* shared(const std::vector<NamedTensor>& tensors) const;

 private:
  struct Tensors {
    std::vector<NamedTensor> parameters, buffers;
    std::vector<at::Tensor> borrowed;
  };
  const Tensors& at(int stage) const { return stages_[static_cast<std::size_t>(stage)]; }

  std::vector<Tensors> stages_;
  std::vector<std::string> names_;
  std::map<std::string, int> stage_of_;
  std::map<const at::TensorImpl*, int> readers_;  // how many stages read it
};

}  // namespace taxon::model::exported
