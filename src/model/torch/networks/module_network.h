#pragma once

#include <c10/util/Type.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/torch/network.h"
#include "model/torch/networks/layers.h"
#include "model/torch/reason.h"

namespace taxon::model {

/// A network out of the framework's modules, one after the other.
class ModuleNetwork final : public Network {
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
    const auto index = static_cast<std::size_t>(stage);
    return run(begins_[index], end_of(index), std::move(inputs));
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
  /// By default a layer with weights is split by outputs where the next one can be by inputs, and that one
  /// so; norms between them by features; others not at all.
  NetworkSplit split(Splitter splitter) override {
    refuse_dropout(splitter);
    for (std::size_t stage = 0; stage < stages_.size(); ++stage)
      if (!borrowed(static_cast<int>(stage)).empty())
        splitter.refuse(
            fmt::format("{} has weights of an earlier layer, which stands in it twice", stages_[stage]));
    look_at(splitter.sample(), splitter.members());
    if (splitter.chooses()) splitter.choose(candidates(splitter.members()));
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
      inputs = run(begins_[index], layer + 1, std::move(inputs));
      inputs = with_bias_once(std::move(inputs), split.bias, member_);
    }
    return step + 1 < split.steps ? inputs : run(layer + 1, end_of(index), std::move(inputs));
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
    int owners = 0;
    for (const auto& module : layers())
      for (const at::Tensor& own : module->parameters(/*recurse=*/false)) owners += own.is_same(parameter);
    target->exclusive = owners == 1;
    for (const auto& module : layers())
      if (auto* linear = module->as<DirectLinearImpl>(); linear && linear->weight.is_same(parameter))
        linear->weight_target = target;
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

 private:
  /// Of a stage that is split.
  struct Split {
    SplitBlock* block = nullptr;
    at::Tensor bias;  // that one member adds
    int steps = 1;    // the last has what is behind the layer
  };
  /// What a sample shows of a stage.
  struct Look {
    double inputs = 0, outputs = 0;  // elements of the layer's
    double inside = 0;               // SplitCandidate's
    bool takes_rows = false;         // the layer takes features alone, in one dimension
    bool keeps_features_apart = true;
  };
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
  /// Has weights that can be split by outputs and by inputs. Of classes alone that are known: one derived
  /// from them may compute anything.
  bool is_layer(std::size_t stage) const {
    const torch::nn::Module& module = module_of(layer_of(stage));
    if (is_exactly<torch::nn::Conv2dImpl>(module))
      return module.as<torch::nn::Conv2dImpl>()->options.groups() == 1;
    return looks_[stage].takes_rows &&
           (is_exactly<torch::nn::LinearImpl>(module) || is_exactly<DirectLinearImpl>(module));
  }
  template <class Layer>
  static bool is_exactly(const torch::nn::Module& module) {
    return module.name() == c10::demangle_type<Layer>();
  }
  /// Computes each feature for itself: batch norm of whatever class, which its buffers show.
  bool is_norm(std::size_t stage) const {
    const torch::nn::Module& module = module_of(layer_of(stage));
    const auto buffers = module.named_buffers();
    const auto own = module.parameters();
    return buffers.contains("running_mean") && buffers.contains("running_var") &&
           std::all_of(own.begin(), own.end(), [](const at::Tensor& tensor) { return tensor.dim() == 1; });
  }
  bool is_block(std::size_t stage) const {
    return dynamic_cast<SplitBlock*>(&module_of(layer_of(stage))) != nullptr;
  }
  /// Whether what the stage leaves by features comes to a layer so.
  bool leads_to_layer(std::size_t stage) const {
    for (; looks_[stage].keeps_features_apart && stage + 1 < stages_.size(); ++stage) {
      if (is_layer(stage + 1)) return true;
      if (!is_norm(stage + 1)) return false;
    }
    return false;
  }
  const parallel::SplitRow& choose(std::size_t stage, const parallel::SplitRow& before) const {
    const bool by_features = before.output == parallel::kByFeatures;
    if (is_norm(stage) && by_features) return parallel::find_split("features");
    if (is_layer(stage) && by_features) return parallel::find_split("inputs");
    return parallel::find_split(is_layer(stage) && leads_to_layer(stage) ? "outputs" : "none");
  }
  void look_at(at::Tensor passing, int members) {
    at::NoGradGuard no_grad;
    module_->eval();
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      const std::size_t layer = layer_of(stage);
      passing = run(begins_[stage], layer, std::move(passing));
      Look& look = looks_.emplace_back();
      look.inputs = static_cast<double>(passing.numel());
      look.takes_rows = passing.dim() == 2 && passing.size(0) == 1;
      if (auto* block = dynamic_cast<SplitBlock*>(&module_of(layer))) look.inside = block->inside(passing);
      passing = run(layer, layer + 1, std::move(passing));
      look.outputs = static_cast<double>(passing.numel());
      look.keeps_features_apart = keeps_features_apart(stage, passing, members);
      passing = run(layer + 1, end_of(stage), std::move(passing));
    }
  }
  /// Whether what is behind the layer makes of members' features the same as of all, which is tried: it may
  /// be of any class.
  bool keeps_features_apart(std::size_t stage, const at::Tensor& outputs, int members) {
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
  /// Layers with the rows by which members could split them.
  std::vector<parallel::SplitCandidate> candidates(int members) const {
    std::vector<parallel::SplitCandidate> layers;
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      const std::size_t layer = layer_of(stage);
      parallel::SplitCandidate& candidate = layers.emplace_back();
      candidate.name = stages_[stage];
      candidate.inputs = looks_[stage].inputs;
      candidate.outputs = looks_[stage].outputs;
      candidate.inside = looks_[stage].inside;
      candidate.needs_sums = is_block(stage) || layer + 1 < end_of(stage);
      for (const at::Tensor& tensor : module_of(layer).parameters())
        candidate.weights += static_cast<double>(tensor.numel());
      candidate.rows = rows_of(stage, members);
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
    const bool apart = looks_[stage].keeps_features_apart;
    if (!is_norm(stage) && layer.buffers().empty()) add("samples");
    if (is_layer(stage) && apart) add("outputs");
    if (is_layer(stage)) add("inputs");
    if (is_norm(stage) && apart) add("features");
    if (!is_layer(stage) || rows.empty()) add("none");
    return rows;
  }
  void refuse_dropout(Splitter& splitter) const {
    for (const auto& module : layers())
      if (drops<torch::nn::DropoutImpl, torch::nn::Dropout2dImpl, torch::nn::Dropout3dImpl,
                torch::nn::AlphaDropoutImpl, torch::nn::FeatureAlphaDropoutImpl>(*module))
        return splitter.refuse("members would drop different activations; leave dropout out");
  }
  template <class... Dropouts>
  static bool drops(const torch::nn::Module& module) {
    const auto is = [](const auto* dropout) { return dropout && dropout->options.p() > 0; };
    return (is(module.as<Dropouts>()) || ...);
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
      steps = {{name, &row, module.parameters()}};
      if (row.by_samples())
        splitter.take_samples(name, module.parameters(), module.buffers().size());
      else if (is_layer(stage) || is_norm(stage))
        split.bias = splitter.cut(name, module, row);
      else
        splitter.keep_whole(steps.front());
    }
    const parallel::Placement left = steps.back().row->output;
    const bool fits_rest =
        left == parallel::kByFeatures ? looks_[stage].keeps_features_apart : left != parallel::kPartial;
    if (!fits_rest && layer + 1 < end_of(stage))
      steps.push_back({name + ".rest", &parallel::find_split("none"), {}});
    split.steps = static_cast<int>(steps.size());
    return steps;
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
  std::vector<Look> looks_;          // of each stage, as soon as it is to be split
  std::vector<Split> splits_;        // likewise, once it is
  int member_ = 0;
};

}  // namespace taxon::model
