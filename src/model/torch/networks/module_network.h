#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "model/torch/chain_network.h"
#include "model/torch/networks/layers.h"

namespace taxon::model {

/// A network out of the framework's modules.
class ModuleNetwork final : public ChainNetwork {
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
    return behind_layer(stage, to_layer(stage, std::move(inputs)));
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
    offer_to_layers(*module_, parameter, target);
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

 protected:
  std::vector<ChainStage> chain(const Splitter& splitter) override {
    at::NoGradGuard no_grad;
    module_->eval();
    const auto elements = [](const at::Tensor& tensor) { return static_cast<double>(tensor.numel()); };
    std::vector<ChainStage> stages;
    at::Tensor passing = splitter.sample();
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      const std::size_t layer = layer_of(stage);
      torch::nn::Module& module = module_of(layer);
      ChainStage& described = stages.emplace_back();
      described.name = stages_[stage];
      described.parameters = module.parameters();
      described.buffers = module.buffers();
      described.statistics = described.buffers.size();
      described.block = dynamic_cast<SplitBlock*>(&module);
      described.has_rest = layer + 1 < end_of(stage);
      for (const char* row : rows_of(module)) described.rows.push_back(&parallel::find_split(row));
      if (!splitter.chooses()) continue;
      for (std::size_t step = begins_[stage]; step < end_of(stage); ++step) {
        if (step == layer) described.inputs = elements(passing);
        if (step == layer && described.block) described.inside = described.block->inside(passing);
        passing = steps_[step]->forward(std::move(passing));
        if (step == layer) described.outputs = elements(passing);
      }
    }
    return stages;
  }
  std::string dropout() const override {
    for (const auto& module : module_->modules())
      if (const auto* dropout = module->as<torch::nn::Dropout>(); dropout && dropout->options.p() > 0)
        return "leave model.dropout out";
    return "";
  }
  at::Tensor to_layer(int stage, at::Tensor inputs) override {
    const auto index = static_cast<std::size_t>(stage);
    for (std::size_t step = begins_[index]; step <= layer_of(index); ++step)
      inputs = steps_[step]->forward(std::move(inputs));
    return inputs;
  }
  at::Tensor behind_layer(int stage, at::Tensor outputs) override {
    const auto index = static_cast<std::size_t>(stage);
    for (std::size_t step = layer_of(index) + 1; step < end_of(index); ++step)
      outputs = steps_[step]->forward(std::move(outputs));
    return outputs;
  }

 private:
  std::size_t end_of(std::size_t stage) const {
    return stage + 1 < begins_.size() ? begins_[stage + 1] : steps_.size();
  }
  /// The step with parameters.
  std::size_t layer_of(std::size_t stage) const {
    std::size_t step = begins_[stage];
    while (module_of(step).parameters().empty()) ++step;
    return step;
  }
  torch::nn::Module& module_of(std::size_t step) const { return *steps_[step]->ptr(); }
  static std::vector<const char*> rows_of(const torch::nn::Module& module) {
    if (dynamic_cast<const SplitBlock*>(&module)) return {"pairs"};
    const auto own = module.parameters(/*recurse=*/false);
    const bool has_matrix =
        std::any_of(own.begin(), own.end(), [](const at::Tensor& t) { return t.defined() && t.dim() > 1; });
    if (has_matrix) return {"samples", "outputs", "inputs"};
    return {"features", "none"};
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
