#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/torch/network.h"
#include "model/torch/networks/layers.h"

namespace taxon::model {

/// A network out of the framework's modules.
class ModuleNetwork final : public Network {
 public:
  /// Every child with parameters begins a stage, and so does every child of a chain inside; those without
  /// belong to the one before them.
  explicit ModuleNetwork(Chain module, at::MemoryFormat fastest = at::MemoryFormat::Contiguous)
      : module_(std::move(module)), fastest_(fastest) {
    collect(*module_, "");
    begins_.front() = 0;
  }

  std::vector<NamedTensor> parameters() const override { return listed(module_->named_parameters()); }
  std::vector<NamedTensor> buffers() const override { return listed(module_->named_buffers()); }
  std::vector<std::string> stages() const override { return stages_; }
  at::Tensor forward(int stage, at::Tensor inputs) override {
    const auto index = static_cast<std::size_t>(stage);
    const std::size_t end = index + 1 < begins_.size() ? begins_[index + 1] : steps_.size();
    for (std::size_t step = begins_[index]; step < end; ++step)
      inputs = steps_[step]->forward(std::move(inputs));
    return inputs;
  }
  at::MemoryFormat fastest() const override { return fastest_; }
  void set_mode(Mode mode) override { module_->train(mode == Mode::Train); }
  void cast(at::ScalarType type) override {
    cast_floating(parameters(), type);
    if (type != at::kBFloat16) cast_floating(buffers(), type);  // see BatchNorm
  }
  void offer(const at::Tensor& parameter, GradientTarget* target) override {
    int owners = 0;
    for (const auto& module : module_->modules())
      for (const at::Tensor& own : module->parameters(/*recurse=*/false)) owners += own.is_same(parameter);
    target->exclusive = owners == 1;
    for (const auto& module : module_->modules())
      if (auto* linear = module->as<DirectLinearImpl>(); linear && linear->weight.is_same(parameter))
        linear->weight_target = target;
  }
  bool is_linear(const at::Tensor& parameter) const override {
    int owners = 0;
    bool linear = false;
    for (const auto& module : module_->modules())
      for (const at::Tensor& own : module->parameters(/*recurse=*/false)) {
        const auto* layer = module->as<DirectLinearImpl>();
        owners += own.is_same(parameter);
        linear = linear || (layer && layer->weight.is_same(parameter));
      }
    return linear && owners == 1;
  }
  ErrorKind fault() const override { return ErrorKind::Internal; }

 private:
  static std::vector<NamedTensor> listed(const torch::OrderedDict<std::string, at::Tensor>& dictionary) {
    std::vector<NamedTensor> list;
    for (const auto& item : dictionary) list.push_back({item.key(), item.value()});
    return list;
  }
  void collect(ChainImpl& chain, const std::string& prefix) {
    auto module = chain.begin();
    for (const auto& child : chain.named_children()) {
      const std::string name = prefix + child.key();
      if (auto* inside = child.value()->as<ChainImpl>()) {
        collect(*inside, name + ".");
      } else {
        if (!child.value()->parameters().empty()) {
          stages_.push_back(name);
          begins_.push_back(steps_.size());
        }
        steps_.push_back(&*module);
      }
      ++module;
    }
  }

  Chain module_;
  const at::MemoryFormat fastest_;
  std::vector<torch::nn::AnyModule*> steps_;  // of the forward pass, in the chain and the chains inside
  std::vector<std::string> stages_;
  std::vector<std::size_t> begins_;  // first step of each stage
};

}  // namespace taxon::model
