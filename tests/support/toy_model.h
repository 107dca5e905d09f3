#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/rng.h"
#include "data/dataset.h"
#include "model/progress.h"

namespace taxon::test {

/// A two-layer perceptron written out by hand: what the training loop needs of a model, without libtorch, so
/// that its tests run in milliseconds and under every sanitizer. Parameters "out.weight" and "out.bias"
/// complete first, then "hidden.weight", "hidden.bias"; "scale" is frozen, "idle" never gets a gradient. One
/// buffer, "seen", counts this rank's samples.
class ToyModel : public model::Model {
 public:
  ToyModel(std::int64_t inputs, int hidden, int classes, DType type, std::uint64_t seed)
      : d_(inputs), h_(hidden), c_(classes), type_(type) {
    spec_.name = "toy";
    spec_.parameters = {{"hidden.weight", {h_, d_}, true}, {"hidden.bias", {h_}, true}, {"scale", {1}, false},
                        {"out.weight", {c_, h_}, true},    {"out.bias", {c_}, true},    {"idle", {3}, true}};
    spec_.buffers = {{"seen", {1}}};
    spec_.divisible = true;
    spec_.segments = {{"hidden", {0, 1, 2}, 0}, {"out", {3, 4, 5}, 0}};
    Rng rng(seed, "toy model");
    for (const auto& parameter : spec_.parameters) {
      values_.emplace_back(static_cast<std::size_t>(parameter.count()));
      for (double& value : values_.back()) value = static_cast<float>((rng.uniform() - 0.5) * 0.6);
    }
    values_[2][0] = 1;
  }

  const model::ModelSpec& spec() const override { return spec_; }
  /// What a sample costs in a segment, in the virtual world.
  void set_seconds(std::size_t segment, double forward, double backward) {
    spec_.segments[segment].forward_seconds = forward;
    spec_.segments[segment].backward_seconds = backward;
  }
  std::vector<int> gradient_order(std::span<const float>, std::span<const std::int64_t>) override {
    return {4, 3, 1, 0, 5};
  }
  void bind(const model::Binding& binding) override {
    binding_ = binding;
    progress_ = model::Progress(binding);
    for (std::size_t slot = 0; slot < binding.parameters.size(); ++slot)
      store(values_[static_cast<std::size_t>(binding.parameters[slot])], *binding.weights,
            binding.layout->slots()[slot].range);
    load();
  }

  void unbind() override {
    load();
    binding_ = {};
  }

  /// Remembers the values of the segments that it was allowed to read.
  void forward(const model::StepInput&, int until) override {
    for (; begun_ < until; ++begun_) load(begun_);
  }
  model::StepOutput forward_backward(const model::StepInput& input, int from, tensor::Marks& marks) override {
    forward(input, static_cast<int>(spec_.segments.size()));
    if (gradients_.empty()) {  // the step's first piece
      for (const auto& value : values_) gradients_.emplace_back(value.size(), 0.0);
      output_ = pass(input.inputs, input.labels, &gradients_, 1.0 / static_cast<double>(input.global_size));
      seen_ += static_cast<double>(input.labels.size());
      progress_.begin();
      stored_ = static_cast<int>(spec_.segments.size());
    }
    for (std::size_t slot = 0; slot < binding_.parameters.size(); ++slot) {
      const int segment = spec_.segment_of(binding_.parameters[slot]);
      if (segment < from || segment >= stored_) continue;
      store(gradients_[static_cast<std::size_t>(binding_.parameters[slot])],
            *binding_.gradients[input.gradients], binding_.gradient(slot));
      progress_.completed(binding_.layout->slots()[slot].range, marks);
    }
    stored_ = from;
    if (from == 0) {
      progress_.finish(marks);
      gradients_.clear();
      begun_ = 0;
    }
    return output_;
  }

  model::StepOutput evaluate(std::span<const float> inputs, std::span<const std::int64_t> labels) override {
    load();
    return pass(inputs, labels, nullptr, 0);
  }

  std::vector<double> buffers() const override { return {seen_}; }
  void set_buffers(std::span<const double> values) override { seen_ = values[0]; }
  std::vector<double> parameters() const override {
    std::vector<double> all;
    for (const auto& value : values_) all.insert(all.end(), value.begin(), value.end());
    return all;
  }
  void set_parameters(std::span<const double> values) override {
    for (auto& value : values_) {
      std::copy_n(values.begin(), value.size(), value.begin());
      values = values.subspan(value.size());
    }
  }
  std::vector<std::byte> random_state() const override { return std::vector<std::byte>(3); }
  void set_random_state(ConstView) override {}
  model::CopyCount copies() const override {
    return {static_cast<std::int64_t>(binding_.parameters.size()), 0};
  }

 private:
  void load() {
    for (int segment = 0; segment < static_cast<int>(spec_.segments.size()); ++segment) load(segment);
  }
  void load(int segment) {
    const auto& mine = spec_.segments[static_cast<std::size_t>(segment)].parameters;
    for (std::size_t slot = 0; slot < binding_.parameters.size(); ++slot) {
      if (std::find(mine.begin(), mine.end(), binding_.parameters[slot]) == mine.end()) continue;
      auto& value = values_[static_cast<std::size_t>(binding_.parameters[slot])];
      dispatch(binding_.weights->type(), [&](auto zero) {
        using T = decltype(zero);
        using Wide = std::conditional_t<sizeof(T) == 8, double, float>;
        auto stored = binding_.weights->values<T>(binding_.layout->slots()[slot].range);
        for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<Wide>(stored[i]);
      });
    }
  }
  static void store(const std::vector<double>& values, const tensor::Arena& arena, Range range) {
    dispatch(arena.type(), [&](auto zero) {
      using T = decltype(zero);
      using Wide = std::conditional_t<sizeof(T) == 8, double, float>;
      auto out = arena.values<T>(range);
      for (std::size_t i = 0; i < values.size(); ++i) out[i] = T(static_cast<Wide>(values[i]));
    });
  }

  model::StepOutput pass(std::span<const float> inputs, std::span<const std::int64_t> labels,
                         std::vector<std::vector<double>>* gradients, double scale) {
    model::StepOutput output;
    auto D = static_cast<std::size_t>(d_), H = static_cast<std::size_t>(h_), C = static_cast<std::size_t>(c_);
    std::vector<double> hidden(H), logits(C), back(H);
    for (std::size_t n = 0; n < labels.size(); ++n) {
      const float* x = inputs.data() + n * D;
      for (std::size_t h = 0; h < H; ++h) {
        double sum = values_[1][h];
        for (std::size_t d = 0; d < D; ++d) sum += values_[0][h * D + d] * x[d];
        hidden[h] = std::tanh(sum * values_[2][0]);
      }
      double most = -1e300, total = 0;
      for (std::size_t c = 0; c < C; ++c) {
        logits[c] = values_[4][c];
        for (std::size_t h = 0; h < H; ++h) logits[c] += values_[3][c * H + h] * hidden[h];
        most = std::max(most, logits[c]);
      }
      for (double logit : logits) total += std::exp(logit - most);
      auto label = static_cast<std::size_t>(labels[n]);
      output.loss_sum += std::log(total) + most - logits[label];
      output.correct += std::max_element(logits.begin(), logits.end()) - logits.begin() == labels[n];
      if (!gradients) continue;
      std::fill(back.begin(), back.end(), 0.0);
      for (std::size_t c = 0; c < C; ++c) {
        double g = (std::exp(logits[c] - most) / total - (c == label)) * scale;
        (*gradients)[4][c] += g;
        for (std::size_t h = 0; h < H; ++h) {
          (*gradients)[3][c * H + h] += g * hidden[h];
          back[h] += g * values_[3][c * H + h];
        }
      }
      for (std::size_t h = 0; h < H; ++h) {
        double g = back[h] * (1 - hidden[h] * hidden[h]) * values_[2][0];
        (*gradients)[1][h] += g;
        for (std::size_t d = 0; d < D; ++d) (*gradients)[0][h * D + d] += g * x[d];
      }
    }
    return output;
  }

  std::int64_t d_, h_, c_;
  DType type_;
  model::ModelSpec spec_;
  model::Binding binding_;
  model::Progress progress_;
  int begun_ = 0;                               // segments whose values the step has read
  std::vector<std::vector<double>> gradients_;  // of a step that is not over
  model::StepOutput output_;
  int stored_ = 0;  // segments from here on have theirs in the arena
  std::vector<std::vector<double>> values_;
  double seen_ = 0;
};

/// Seeded samples around one centre per class.
class ToyData final : public data::Dataset {
 public:
  ToyData(std::int64_t size, std::int64_t inputs, int classes, std::uint64_t seed)
      : size_(size), shape_{{inputs}, classes} {
    Rng centre_rng(7, "toy centres"), rng(seed, "toy samples");
    std::vector<double> centres(static_cast<std::size_t>(inputs * classes));
    for (double& value : centres) value = centre_rng.uniform() * 2 - 1;
    for (std::int64_t n = 0; n < size; ++n) {
      auto label = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(classes)));
      labels_.push_back(label);
      for (std::int64_t d = 0; d < inputs; ++d)
        inputs_.push_back(
            static_cast<float>(centres[static_cast<std::size_t>(label * inputs + d)] + rng.uniform() - 0.5));
    }
  }
  std::int64_t size() const override { return size_; }
  const data::SampleShape& shape() const override { return shape_; }
  void read(std::span<const std::int64_t> indices, std::span<float> inputs,
            std::span<std::int64_t> labels) const override {
    auto width = static_cast<std::size_t>(shape_.elements());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      auto index = static_cast<std::size_t>(indices[i]);
      std::copy_n(inputs_.begin() + static_cast<std::ptrdiff_t>(index * width), width,
                  inputs.begin() + static_cast<std::ptrdiff_t>(i * width));
      labels[i] = labels_[index];
    }
  }

 private:
  std::int64_t size_;
  data::SampleShape shape_;
  std::vector<float> inputs_;
  std::vector<std::int64_t> labels_;
};

}  // namespace taxon::test
