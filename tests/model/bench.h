#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "model/memory_order.h"
#include "model/model.h"

namespace taxon::model {

/// Random inputs and labels.
struct Samples {
  std::vector<float> inputs;
  std::vector<std::int64_t> labels;
};

inline Samples make_samples(const data::SampleShape& shape, std::size_t count, std::uint64_t seed = 5) {
  Rng rng(seed, "test samples");
  Samples samples;
  for (std::size_t i = 0; i < count * static_cast<std::size_t>(shape.elements()); ++i)
    samples.inputs.push_back(static_cast<float>(2 * rng.uniform() - 1));
  for (std::size_t i = 0; i < count; ++i)
    samples.labels.push_back(static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(shape.classes))));
  return samples;
}

/// Notes which marks were reached, and what the gradients held at that moment.
class Recorder final : public tensor::Milestones {
 public:
  explicit Recorder(const tensor::Arena* gradients = nullptr) : gradients_(gradients) {}
  void reached(int index) override {
    order.push_back(index);
    if (gradients_)
      snapshots.emplace_back(gradients_->bytes().data(),
                             gradients_->bytes().data() + gradients_->bytes().size());
  }
  std::vector<int> order;
  std::vector<std::vector<std::byte>> snapshots;  // one per mark

 private:
  const tensor::Arena* gradients_;
};

/// A model with arenas of its own, one slot per trainable parameter in the given order (the spec's if empty).
class Bound {
 public:
  explicit Bound(std::unique_ptr<Model> model, DType compute = DType::Float32,
                 DType reduction = DType::Float32, std::vector<int> order = {}, int slots_per_bucket = 1)
      : model_(std::move(model)), weights_layout_(compute), gradients_layout_(reduction) {
    const ModelSpec& spec = model_->spec();
    if (order.empty())
      for (std::size_t i = 0; i < spec.parameters.size(); ++i)
        if (spec.parameters[i].trainable) order.push_back(static_cast<int>(i));
    // Both arenas have the same ranges, so the layout of the coarser alignment serves both.
    tensor::ArenaLayout& layout = size_of(compute) < size_of(reduction) ? weights_layout_ : gradients_layout_;
    for (int index : order) {
      const ParameterSpec& parameter = spec.parameters[static_cast<std::size_t>(index)];
      const std::size_t begin = layout.size();
      layout.add(parameter.name, parameter.shape);
      if (binding_.parameters.size() % static_cast<std::size_t>(slots_per_bucket) == 0)
        binding_.buckets.push_back({{begin, 0}, {begin, 0}});
      BucketRange& bucket = binding_.buckets.back();
      bucket.weights.size = bucket.gradients.size = layout.size() - bucket.weights.begin;
      binding_.parameters.push_back(index);
    }
    weights = tensor::Arena(compute, layout.size());
    gradients = tensor::Arena(reduction, layout.size());
    binding_.layout = &layout;
    binding_.weights = &weights;
    binding_.gradients = {&gradients};
    model_->bind(binding_);
  }
  Bound(const Bound&) = delete;

  Model& operator*() { return *model_; }
  Model* operator->() { return model_.get(); }
  const Binding& binding() const { return binding_; }

  StepOutput step(const Samples& samples, int micro_batches = 1, std::int64_t global_size = 0) {
    Recorder recorder;
    return step(samples, micro_batches, global_size, recorder);
  }
  StepOutput step(const Samples& samples, int micro_batches, std::int64_t global_size, Recorder& recorder) {
    const auto size = static_cast<std::int64_t>(samples.labels.size());
    StepOutput output = model_->forward_backward(
        {samples.inputs, samples.labels, global_size ? global_size : size, micro_batches}, 0, recorder);
    marks = recorder.order;
    return output;
  }

  /// The gradient of a parameter by name, as float64 in the order of its shape.
  std::vector<double> gradient(const std::string& name) const { return read(gradients, name); }
  std::vector<double> weight(const std::string& name) const { return read(weights, name); }
  /// All gradients in the order of the slots.
  std::vector<double> all_gradients() const {
    std::vector<double> all;
    for (const auto& slot : binding_.layout->slots()) {
      auto values = read(gradients, slot.name);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
  void fill(const std::string& name, float value) {
    for (const auto& slot : binding_.layout->slots())
      if (slot.name == name)
        for (float& weight : weights.values<float>(slot.range)) weight = value;
  }
  void fill_gradients(float value) {
    dispatch(gradients.type(), [&](auto zero) {
      using T = decltype(zero);
      for (T& gradient : gradients.values<T>({0, gradients.size()})) gradient = static_cast<T>(value);
    });
  }
  /// weights -= rate * gradients, for arenas of one type.
  void descend(double rate) {
    dispatch(weights.type(), [&](auto zero) {
      using T = decltype(zero);
      auto w = weights.values<T>({0, weights.size()});
      auto g = gradients.values<T>({0, gradients.size()});
      for (std::size_t i = 0; i < w.size(); ++i)
        if constexpr (!std::is_same_v<T, BFloat16>) w[i] -= static_cast<T>(rate) * g[i];
    });
  }

  /// From now on each bucket is as many as `parts`, of the same number of elements.
  void split_buckets(std::size_t parts) {
    std::vector<BucketRange> buckets;
    for (const BucketRange& whole : binding_.buckets) {
      const std::size_t size = whole.weights.size / parts;
      TAXON_CHECK(size * parts == whole.weights.size);
      for (std::size_t part = 0; part < parts; ++part) {
        const Range range{whole.weights.begin + part * size, size};
        buckets.push_back({range, range});
      }
    }
    binding_.buckets = std::move(buckets);
    model_->unbind();
    model_->bind(binding_);
  }

  /// From now on nobody waits for a part of a gradient.
  void await_no_pieces() {
    binding_.pieces_are_awaited = false;
    model_->unbind();
    model_->bind(binding_);
  }

  /// From now on linear weights leave the factors of at most so many samples in place of gradients.
  void leave_factors(std::size_t rows) {
    const ModelSpec& spec = model_->spec();
    tensor::ArenaLayout places(gradients.type());
    for (std::size_t slot = 0; slot < binding_.parameters.size(); ++slot) {
      const ParameterSpec& parameter = spec.parameters[static_cast<std::size_t>(binding_.parameters[slot])];
      if (!parameter.linear) continue;
      const auto m = static_cast<std::size_t>(parameter.shape[0]);
      const auto n = static_cast<std::size_t>(parameter.shape[1]);
      const Range all = places.add(parameter.name, {static_cast<std::int64_t>(rows * (m + n))});
      binding_.factor_slots.push_back({slot, rows, {all.begin, rows * m}, {all.begin + rows * m, rows * n}});
    }
    factors = tensor::Arena(gradients.type(), places.size());
    binding_.factors = {&factors};
    model_->unbind();
    model_->bind(binding_);
  }
  /// All gradients in the order of the slots, those that are factors multiplied.
  std::vector<double> all_products() const {
    std::vector<double> all;
    for (std::size_t s = 0; s < binding_.parameters.size(); ++s) {
      std::vector<double> values = read(gradients, binding_.layout->slots()[s].name);
      if (const FactorSlot* slot = binding_.factors_of(s)) values = product(*slot);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  tensor::Arena weights, gradients, factors;
  std::vector<int> marks;  // of the last step

 private:
  std::vector<double> product(const FactorSlot& slot) const {
    return dispatch(factors.type(), [&](auto zero) {
      using T = decltype(zero);
      std::vector<double> sum;
      if constexpr (!std::is_same_v<T, BFloat16>) {
        const auto d = factors.values<T>(slot.outputs), x = factors.values<T>(slot.inputs);
        const std::size_t m = d.size() / slot.rows, n = x.size() / slot.rows;
        sum.resize(m * n);
        for (std::size_t k = 0; k < slot.rows; ++k)
          for (std::size_t i = 0; i < m; ++i)
            for (std::size_t j = 0; j < n; ++j) sum[i * n + j] += double{d[k * m + i]} * x[k * n + j];
      }
      return sum;
    });
  }
  std::vector<double> read(const tensor::Arena& arena, const std::string& name) const {
    const auto& slots = binding_.layout->slots();
    auto slot = std::find_if(slots.begin(), slots.end(), [&](const auto& s) { return s.name == name; });
    TAXON_CHECK(slot != slots.end(), name);
    const int index = binding_.parameters[static_cast<std::size_t>(slot - slots.begin())];
    const ParameterSpec& parameter = model_->spec().parameters[static_cast<std::size_t>(index)];
    return dispatch(arena.type(), [&](auto zero) {
      using T = decltype(zero);
      std::vector<T> ordered(slot->range.size);
      from_arena(parameter, arena.type(), arena.bytes(slot->range), as_view(std::span(ordered)));
      std::vector<double> values;
      for (T value : ordered)
        if constexpr (std::is_same_v<T, BFloat16>)
          values.push_back(static_cast<float>(value));
        else
          values.push_back(value);
      return values;
    });
  }

  std::unique_ptr<Model> model_;
  tensor::ArenaLayout weights_layout_, gradients_layout_;
  Binding binding_;
};

}  // namespace taxon::model
