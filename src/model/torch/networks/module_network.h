#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/torch/chain_network.h"
#include "model/torch/layer_kinds.h"
#include "model/torch/networks/layers.h"
#include "model/torch/reason.h"

namespace taxon::model {

/// A network out of the framework's modules, one after the other.
class ModuleNetwork final : public ChainNetwork {
 public:
  /// Every child with parameters or buffers begins a stage, and so does every child of a chain inside; those
  /// without belong to the one before them.
  explicit ModuleNetwork(Chain module, at::MemoryFormat fastest = at::MemoryFormat::Contiguous)
      : ModuleNetwork(module.ptr(), fastest, ErrorKind::Internal) {}
  /// `fault`: what to blame when it fails.
  ModuleNetwork(std::shared_ptr<torch::nn::SequentialImpl> module, at::MemoryFormat fastest, ErrorKind fault)
      : module_(std::move(module)), fastest_(fastest), fault_(fault) {
    collect(*module_, "");
    if (!begins_.empty()) begins_.front() = 0;
  }

  std::vector<NamedTensor> parameters() const override { return listed(module_->named_parameters()); }
  std::vector<NamedTensor> buffers() const override { return listed(module_->named_buffers()); }
  std::vector<std::string> stages() const override { return stages_; }
  at::Tensor forward(int stage, at::Tensor inputs) override {
    return behind_layer(stage, to_layer(stage, std::move(inputs)));
  }
  void forward_rows(int stage, const at::Tensor& inputs, std::int64_t rows) override {
    const auto index = static_cast<std::size_t>(stage);
    const std::size_t layer = layer_of(index);
    const auto* linear = module_of(layer).as<DirectLinearImpl>();
    for (std::size_t before = begins_[index]; before < layer; ++before)
      if (!module_of(before).as<torch::nn::FlattenImpl>()) return;  // what is random is drawn once
    if (linear) linear->forward_rows(run(begins_[index], layer, inputs), rows);
  }
  /// Of modules that stand in it more than once.
  std::vector<at::Tensor> borrowed(int stage) const override {
    std::vector<at::Tensor> earlier, others;
    for (std::size_t before = 0; before < static_cast<std::size_t>(stage); ++before)
      for (const at::Tensor& own : module_of(layer_of(before)).parameters()) earlier.push_back(own);
    for (const at::Tensor& read : module_of(layer_of(static_cast<std::size_t>(stage))).parameters())
      if (std::any_of(earlier.begin(), earlier.end(), [&](const auto& own) { return own.is_same(read); }))
        others.push_back(read);
    return others;
  }
  at::MemoryFormat fastest() const override { return fastest_; }
  void set_mode(Mode mode) override { module_->train(mode == Mode::Train); }
  void cast(at::ScalarType type) override {
    cast_floating(parameters(), type);
    for (const auto& module : layers())
      if (type != at::kBFloat16 || !module->as<BatchNormImpl>())  // see there
        cast_floating(listed(module->named_buffers(/*recurse=*/false)), type);
  }
  void offer(const at::Tensor& parameter, GradientTarget* target) override {
    offer_to_layers(*module_, parameter, target);
  }
  bool is_linear(const at::Tensor& parameter) const override {
    int owners = 0;
    bool linear = false;
    for (const auto& module : layers())
      for (const at::Tensor& own : module->parameters(/*recurse=*/false)) {
        const auto* layer = module->as<DirectLinearImpl>();
        owners += own.is_same(parameter);
        linear = linear || (layer && layer->weight.is_same(parameter));
      }
    return linear && owners == 1;
  }
  ErrorKind fault() const override { return fault_; }

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
      passing = run(begins_[stage], layer, std::move(passing));
      ChainStage& described = stages.emplace_back();
      described.name = stages_[stage];
      described.parameters = module.parameters();
      described.buffers = module.buffers();
      described.statistics = described.buffers.size();
      described.block = dynamic_cast<SplitBlock*>(&module);
      described.has_rest = layer + 1 < end_of(stage);
      described.inputs = elements(passing);
      if (described.block) described.inside = described.block->inside(passing);
      const parallel::LayerKind& kind =
          kind_of(facts_of(module, passing.sizes().vec()), splitter.own_kinds());
      passing = run(layer, layer + 1, std::move(passing));
      described.outputs = elements(passing);
      described.rest_takes_parts = takes_parts(stage, passing, splitter.members());
      find_rows(described, static_cast<int>(stage), kind, splitter);
      passing = run(layer + 1, end_of(stage), std::move(passing));
    }
    return stages;
  }
  std::string dropout() const override {
    for (const auto& module : layers())
      if (drops<torch::nn::DropoutImpl, torch::nn::Dropout2dImpl, torch::nn::Dropout3dImpl,
                torch::nn::AlphaDropoutImpl, torch::nn::FeatureAlphaDropoutImpl>(*module))
        return "leave dropout out";
    return "";
  }
  at::Tensor to_layer(int stage, at::Tensor inputs) override {
    const auto index = static_cast<std::size_t>(stage);
    return run(begins_[index], layer_of(index) + 1, std::move(inputs));
  }
  at::Tensor behind_layer(int stage, at::Tensor outputs) override {
    const auto index = static_cast<std::size_t>(stage);
    return run(layer_of(index) + 1, end_of(index), std::move(outputs));
  }

 private:
  std::size_t end_of(std::size_t stage) const {
    return stage + 1 < begins_.size() ? begins_[stage + 1] : steps_.size();
  }
  /// The step with parameters, or buffers.
  std::size_t layer_of(std::size_t stage) const {
    std::size_t step = begins_[stage];
    while (!has_state(module_of(step))) ++step;
    return step;
  }
  /// All modules inside. It itself may be no shared pointer's.
  std::vector<std::shared_ptr<torch::nn::Module>> layers() const {
    return module_->modules(/*include_self=*/false);
  }
  static bool has_state(const torch::nn::Module& module) {
    return !module.parameters().empty() || !module.buffers().empty();
  }
  at::Tensor run(std::size_t step, std::size_t end, at::Tensor inputs) {
    for (; step < end; ++step) try {
        inputs = steps_[step]->forward(std::move(inputs));
      } catch (const std::exception& error) {
        throw std::runtime_error(
            fmt::format("layer {} ({}): {}", names_[step], module_of(step).name(), reason_of(error)));
      }
    return inputs;
  }
  torch::nn::Module& module_of(std::size_t step) const { return *steps_[step]->ptr(); }
  void find_rows(ChainStage& described, int stage, const parallel::LayerKind& kind,
                 const Splitter& splitter) const {
    if (described.block) {
      described.rows = {&splitter.find("pairs")};
      return;
    }
    const std::string_view type = module_of(layer_of(static_cast<std::size_t>(stage))).name();
    std::vector<const parallel::SplitRow*> offered;
    std::vector<std::string_view> of_parts;
    for (std::string_view name : kind.splits) {
      offered.push_back(&splitter.find(name));
      if (offered.back()->divides_weights) of_parts.push_back(name);
      if (offered.back()->output != parallel::kByFeatures || described.rest_takes_parts)
        described.rows.push_back(offered.back());
    }
    const bool twice = !borrowed(stage).empty();
    const std::string has_no_such_parts = of_parts.empty()
                                              ? fmt::format("it is a {}, of which each has all", type)
                                              : fmt::format("it is {}, of which members have parts by {}",
                                                            kind.sentence, fmt::join(of_parts, " or "));
    for (const parallel::SplitRow* row : splitter.rows()) {
      const bool is_offered = std::count(offered.begin(), offered.end(), row) > 0;
      if (twice)
        described.refused.emplace(row->name, "it has weights of an earlier layer, which stands in it twice");
      else if (row->divides_weights && !is_offered)
        described.refused.emplace(row->name, has_no_such_parts);
    }
  }
  /// Whether what is behind the layer makes of members' features the same as of all, which is tried: it may
  /// be of any class.
  bool takes_parts(std::size_t stage, const at::Tensor& outputs, int members) {
    const std::size_t begin = layer_of(stage) + 1, end = end_of(stage);
    if (begin == end || outputs.dim() < 2 || outputs.size(1) % members != 0) return true;
    const at::Tensor values =
        at::arange(outputs.numel(), at::kDouble).sin().view(outputs.sizes()).to(outputs.scalar_type());
    try {
      std::vector<at::Tensor> parts;
      for (const at::Tensor& part : values.chunk(members, 1)) parts.push_back(run(begin, end, part.clone()));
      const at::Tensor joined = at::cat(parts, 1), whole = run(begin, end, values.clone());
      return joined.sizes() == whole.sizes() && joined.allclose(whole, /*rtol=*/0.02, /*atol=*/1e-3);
    } catch (const std::exception&) {
      return false;  // it wants as many as there are
    }
  }
  template <class... Dropouts>
  static bool drops(const torch::nn::Module& module) {
    const auto is = [](const auto* dropout) { return dropout && dropout->options.p() > 0; };
    return (is(module.as<Dropouts>()) || ...);
  }
  void collect(torch::nn::SequentialImpl& chain, const std::string& prefix) {
    auto module = chain.begin();
    for (const auto& child : chain.named_children()) {
      const std::string name = prefix + child.key();
      if (auto* inside = child.value()->as<ChainImpl>()) {
        collect(*inside, name + ".");
      } else {
        if (has_state(*child.value())) {
          stages_.push_back(name);
          begins_.push_back(steps_.size());
        }
        steps_.push_back(&*module);
        names_.push_back(name);
      }
      ++module;
    }
  }

  const std::shared_ptr<torch::nn::SequentialImpl> module_;
  const at::MemoryFormat fastest_;
  const ErrorKind fault_;
  std::vector<torch::nn::AnyModule*> steps_;  // of the forward pass, in the chain and the chains inside
  std::vector<std::string> names_;            // of the steps
  std::vector<std::string> stages_;
  std::vector<std::size_t> begins_;  // first step of each stage
};

}  // namespace taxon::model
