#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include "model/bench.h"
#include "optim/rule.h"
#include "plan/plan.h"

namespace taxon::test {

using NamedValues = std::map<std::string, std::vector<double>>;

/// What a run in double precision exported.
inline NamedValues exported(const data::Storage& storage) {
  NamedValues values;
  for (const auto& tensor : checkpoint::read_safetensors(storage, "run/model.safetensors"))
    if (tensor.type == DType::Float64)  // not a buffer
      for (double value : as_span<double>(ConstView(tensor.bytes.data(), tensor.bytes.size())))
        values[tensor.name].push_back(value);
  return values;
}

/// |a - b| / |a| over all values; 1 where names or sizes differ.
inline double distance_between(const NamedValues& a, const NamedValues& b) {
  double squares = 0, of_a = 0;
  if (a.size() != b.size()) return 1;
  for (const auto& [name, values] : a) {
    const auto other = b.find(name);
    if (other == b.end() || other->second.size() != values.size()) return 1;
    for (std::size_t i = 0; i < values.size(); ++i) {
      squares += (values[i] - other->second[i]) * (values[i] - other->second[i]);
      of_a += values[i] * values[i];
    }
  }
  return std::sqrt(squares / of_a);
}

/// Stages that update their weights with gradients of older ones, by definition and on one model: from flush
/// to flush
///
///     w_s(t + 1) = rule(w_s(t), gradient_s(w_0(t - delay_0), w_1(t - delay_1), ...)),  w(t) = w(0) for t < 0
///
/// of the mean over the samples that `micros_per_update` micro-batches of all replicas have. An update of no
/// samples changes nothing.
struct DelayedUpdates {
  std::function<std::unique_ptr<model::Model>()> make;  // of double precision
  const data::Dataset* train = nullptr;
  plan::Plan plan;  // of a constant rate
  int replicas = 1;
  int micros_per_update = 1;
  std::vector<Range> stages;  // segments of each
  std::vector<int> delays;    // of each

  NamedValues weights() const {
    model::Bound bound(make(), DType::Float64, DType::Float64);
    const model::Binding& binding = bound.binding();
    const auto& slots = binding.layout->slots();
    tensor::Arena newest(DType::Float64, binding.layout->size());
    copy(bound.weights, newest, slots);
    const auto rule = optim::find_rule(plan.optimiser.rule)
                          .make(plan.optimiser, {DType::Float64, binding.layout->size(), {}});
    data::Sampler sampler(plan.seed, train->size(), plan.batch.global);
    std::int64_t samples = 0, updates = 0;
    for (std::int64_t step = 0; step < plan.length.steps; ++step) {
      std::vector<std::vector<double>> history = {values_of(newest)};
      for (int first = 0; first < plan.batch.micro_batches; first += micros_per_update, ++updates) {
        const auto batch = data::read_samples(*train, samples_of(sampler, samples, first));
        if (!batch.labels.empty()) {
          for (const tensor::Slot& slot : slots) {
            const auto stage = static_cast<std::size_t>(stage_of(bound->spec(), slot.name));
            const auto late = std::min(history.size() - 1, static_cast<std::size_t>(delays[stage]));
            const std::vector<double>& used = history[history.size() - 1 - late];
            for (std::size_t i = 0; i < slot.range.size; ++i)
              bound.weights.values<double>(slot.range)[i] = used[slot.range.begin + i];
          }
          model::Recorder ignored;
          const model::StepInput input{.inputs = batch.inputs(),
                                       .labels = batch.labels,
                                       .global_size = static_cast<std::int64_t>(batch.labels.size())};
          bound->forward_backward(input, 0, ignored);
          for (const tensor::Slot& slot : slots)
            rule->update(newest, bound.gradients, optim::UpdateRange::same(slot.range),
                         {.step = updates, .rate = plan.learning_rate.base});
        }
        history.push_back(values_of(newest));
      }
      samples += sampler.at(samples, 1, 0).size;
    }
    NamedValues named;
    copy(newest, bound.weights, slots);
    for (const tensor::Slot& slot : slots) named[slot.name] = bound.weight(slot.name);
    return named;
  }

 private:
  static void copy(const tensor::Arena& from, const tensor::Arena& to,
                   const std::vector<tensor::Slot>& slots) {
    for (const tensor::Slot& slot : slots) {
      const auto values = from.values<double>(slot.range);
      std::copy(values.begin(), values.end(), to.values<double>(slot.range).begin());
    }
  }
  static std::vector<double> values_of(const tensor::Arena& arena) {
    const auto values = arena.values<double>({0, arena.size()});
    return {values.begin(), values.end()};
  }
  int stage_of(const model::ModelSpec& spec, const std::string& name) const {
    for (std::size_t p = 0; p < spec.parameters.size(); ++p)
      for (std::size_t s = 0; s < stages.size(); ++s)
        if (const auto segment = static_cast<std::size_t>(spec.segment_of(static_cast<int>(p)));
            spec.parameters[p].name == name && segment >= stages[s].begin && segment < stages[s].end())
          return static_cast<int>(s);
    throw std::logic_error("no stage has " + name);
  }
  /// Of the update whose first micro-batch this is, in the step that begins after so many samples.
  std::vector<std::int64_t> samples_of(data::Sampler& sampler, std::int64_t before, int first) const {
    std::vector<std::int64_t> all;
    for (int replica = 0; replica < replicas; ++replica) {
      const std::vector<std::int64_t> share = sampler.at(before, replicas, replica).indices;
      for (int micro = first; micro < first + micros_per_update; ++micro) {
        const Range own = part({0, share.size()}, static_cast<std::size_t>(plan.batch.micro_batches),
                               static_cast<std::size_t>(micro));
        const auto begin = share.begin() + static_cast<std::ptrdiff_t>(own.begin);
        all.insert(all.end(), begin, begin + static_cast<std::ptrdiff_t>(own.size));
      }
    }
    return all;
  }
};

}  // namespace taxon::test
