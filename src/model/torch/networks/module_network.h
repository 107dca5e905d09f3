#pragma once

#include <algorithm>
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
    for (std::size_t step = begins_[index]; step < end_of(index); ++step)
      inputs = steps_[step]->forward(std::move(inputs));
    return inputs;
  }
  /// By default a layer with weights is split by outputs where the next one can be by inputs, and that one
  /// so; norms between them by features; others not at all.
  NetworkSplit split(Splitter splitter) override {
    refuse_dropout(splitter);
    if (splitter.chooses()) splitter.choose(candidates(splitter));
    std::vector<std::vector<NetworkStep>> stages;
    const parallel::SplitRow* before = &parallel::find_split("none");
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      stages.push_back(split_stage(stage, *before, splitter));
      before = stages.back().back().row;
    }
    member_ = splitter.member();
    return splitter.finish(std::move(stages));
  }
  at::Tensor forward(int stage, int step, at::Tensor inputs, const at::Tensor& entering) override {
    const auto index = static_cast<std::size_t>(stage);
    const Split& split = splits_[index];
    const std::size_t layer = layer_of(index);
    if (split.block) {
      inputs = split.block->step(step, std::move(inputs), entering);
    } else if (step == 0) {
      for (std::size_t s = begins_[index]; s <= layer; ++s) inputs = steps_[s]->forward(std::move(inputs));
      inputs = with_bias_once(std::move(inputs), split.bias, member_);
    }
    if (step + 1 < split.steps) return inputs;
    for (std::size_t s = layer + 1; s < end_of(index); ++s) inputs = steps_[s]->forward(std::move(inputs));
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

 private:
  /// Of a stage that is split.
  struct Split {
    SplitBlock* block = nullptr;
    at::Tensor bias;  // that one member adds
    int steps = 1;    // the last has what is behind the layer
  };
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
  /// Has weights that can be split by outputs and by inputs.
  bool is_layer(std::size_t stage) const {
    const auto own = module_of(layer_of(stage)).parameters(/*recurse=*/false);
    return std::any_of(own.begin(), own.end(),
                       [](const at::Tensor& t) { return t.defined() && t.dim() > 1; });
  }
  bool is_block(std::size_t stage) const {
    return dynamic_cast<SplitBlock*>(&module_of(layer_of(stage))) != nullptr;
  }
  /// Whether what the stage leaves by features comes to a layer so.
  bool leads_to_layer(std::size_t stage) const {
    for (std::size_t next = stage + 1; next < stages_.size() && !is_block(next); ++next)
      if (is_layer(next)) return true;
    return false;
  }
  const parallel::SplitRow& choose(std::size_t stage, const parallel::SplitRow& before) const {
    const bool by_features = before.output == parallel::kByFeatures;
    if (!is_layer(stage)) return parallel::find_split(by_features ? "features" : "none");
    if (by_features) return parallel::find_split("inputs");
    return parallel::find_split(leads_to_layer(stage) ? "outputs" : "none");
  }
  /// Layers with the rows by which members could split them.
  std::vector<parallel::SplitCandidate> candidates(const Splitter& splitter) {
    at::NoGradGuard no_grad;
    module_->eval();
    const auto elements = [](const at::Tensor& tensor) { return static_cast<double>(tensor.numel()); };
    std::vector<parallel::SplitCandidate> layers;
    at::Tensor passing = splitter.sample();
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      const std::size_t layer = layer_of(stage);
      parallel::SplitCandidate& candidate = layers.emplace_back();
      candidate.name = stages_[stage];
      candidate.needs_sums = is_block(stage) || layer + 1 < end_of(stage);
      for (std::size_t step = begins_[stage]; step < end_of(stage); ++step) {
        if (step == layer) candidate.inputs = elements(passing);
        if (auto* block = dynamic_cast<SplitBlock*>(&module_of(step)))
          candidate.inside = block->inside(passing);
        passing = steps_[step]->forward(std::move(passing));
        if (step == layer) candidate.outputs = elements(passing);
      }
      for (const at::Tensor& tensor : module_of(layer).parameters()) candidate.weights += elements(tensor);
      candidate.rows = rows_of(stage, splitter.members());
    }
    return layers;
  }
  std::vector<const parallel::SplitRow*> rows_of(std::size_t stage, int members) const {
    if (is_block(stage)) return {&parallel::find_split("pairs")};
    const torch::nn::Module& layer = module_of(layer_of(stage));
    std::vector<const parallel::SplitRow*> rows;
    const auto add = [&](std::string_view name) {
      const parallel::SplitRow& row = parallel::find_split(name);
      for (const at::Tensor& tensor : layer.parameters(/*recurse=*/false)) {
        const int dimension = !tensor.defined() ? -1 : tensor.dim() > 1 ? row.of_matrices : row.of_vectors;
        if (dimension >= 0 && tensor.size(dimension) % members != 0) return;
      }
      rows.push_back(&row);
    };
    for (const char* name : {"samples", "outputs", "inputs"})
      if (is_layer(stage)) add(name);
    for (const char* name : {"features", "none"})
      if (!is_layer(stage)) add(name);
    return rows;
  }
  void refuse_dropout(Splitter& splitter) const {
    for (const auto& module : module_->modules())
      if (const auto* dropout = module->as<torch::nn::Dropout>(); dropout && dropout->options.p() > 0)
        return splitter.refuse("members would drop different activations; leave model.dropout out");
  }
  std::vector<NetworkStep> split_stage(std::size_t stage, const parallel::SplitRow& before,
                                       Splitter& splitter) {
    Split& split = splits_.emplace_back();
    const std::string& name = stages_[stage];
    const std::size_t layer = layer_of(stage);
    torch::nn::Module& module = module_of(layer);
    std::vector<NetworkStep> steps;
    split.block = dynamic_cast<SplitBlock*>(&module);
    if (split.block) {
      steps = split.block->split(name, splitter);
    } else {
      const parallel::SplitRow* wanted = splitter.wanted(name);
      const parallel::SplitRow& row = wanted ? *wanted : choose(stage, before);
      split.bias = splitter.cut(name, module, row);
      steps = {{name, &row, module.parameters()}};
    }
    if (steps.back().row->output == parallel::kPartial && layer + 1 < end_of(stage))
      steps.push_back({name + ".rest", &parallel::find_split("none"), {}});
    split.steps = static_cast<int>(steps.size());
    return steps;
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
  std::vector<Split> splits_;        // of each stage, once it is split
  int member_ = 0;
};

}  // namespace taxon::model
