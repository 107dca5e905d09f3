#include "apps/taxon/profiling.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "base/error.h"
#include "data/sampler.h"
#include "exchange/bucket.h"
#include "optim/rule.h"

namespace taxon::app {
namespace {

/// A gradient of more elements is watched in parts: layers may complete it row by row.
constexpr std::size_t kWatchedElements = 128 << 10;
constexpr std::size_t kMostParts = 8;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// When each mark was reached.
class Clock final : public tensor::Marks {
 public:
  explicit Clock(std::size_t marks) : reached_(marks, 0) {}
  void reached(int index) override { reached_[static_cast<std::size_t>(index)] = now(); }
  double at(std::size_t mark) const { return reached_[mark]; }

 private:
  std::vector<double> reached_;
};

/// The model's memory, in the order in which gradients complete, cut finely.
class Bench {
 public:
  Bench(model::Model& model, const plan::Plan& plan, const std::vector<int>& order)
      : model_(model), layout_(plan.precision.master) {
    binding_.parameters = order;
    for (int parameter : order) {
      const model::ParameterSpec& spec = model.spec().parameters[static_cast<std::size_t>(parameter)];
      watch(layout_.add(spec.name, spec.shape));
    }
    // Both arenas have one layout; that of the wider type serves both.
    weights_ = tensor::Arena(plan.precision.compute, layout_.size());
    gradients_ = tensor::Arena(plan.precision.master, layout_.size());
    binding_.layout = &layout_;
    binding_.weights = &weights_;
    binding_.gradients = {&gradients_};
    model.bind(binding_);
  }
  Bench(const Bench&) = delete;
  ~Bench() { model_.unbind(); }

  const tensor::ArenaLayout& layout() const { return layout_; }
  const tensor::Arena& gradients() const { return gradients_; }
  std::size_t marks() const { return binding_.buckets.size(); }
  /// Marks [first, last) of a slot.
  std::pair<std::size_t, std::size_t> marks_of(std::size_t slot) const {
    return {first_mark_[slot], slot + 1 < first_mark_.size() ? first_mark_[slot + 1] : marks()};
  }

 private:
  void watch(Range slot) {
    first_mark_.push_back(marks());
    const std::size_t parts = std::clamp<std::size_t>(slot.size / kWatchedElements, 1, kMostParts);
    for (std::size_t i = 0; i < parts; ++i) {
      const Range range = part(slot, parts, i);
      binding_.buckets.push_back({range, range});
    }
  }

  model::Model& model_;
  tensor::ArenaLayout layout_;
  model::Binding binding_;
  tensor::Arena weights_, gradients_;
  std::vector<std::size_t> first_mark_;  // [slot]
};

/// Measurements of one figure for each of a list of things.
class Series {
 public:
  explicit Series(std::size_t size) : values_(size) {}
  void add(std::size_t index, double value) { values_[index].push_back(value); }
  double at(std::size_t index) const { return median(values_[index]); }

 private:
  std::vector<std::vector<double>> values_;
};

class Profiling {
 public:
  Profiling(model::Model& model, const data::Dataset& train, const plan::Plan& plan,
            const ProfilingOptions& options)
      : model_(model),
        spec_(model.spec()),
        train_(train),
        plan_(plan),
        options_(options),
        shape_(train.shape()),
        sampler_(plan.seed, train.size(), options.samples) {
    inputs_ = read(0);
  }

  plan::ModelProfile run() {
    if (static_cast<std::int64_t>(labels_.size()) != options_.samples)
      throw Error(ErrorKind::Usage, "a pass has more samples than the training set: give a smaller batch");
    order_ = model_.gradient_order(inputs_, labels_);
    Bench bench(model_, plan_, order_);
    const std::size_t segments = spec_.segments.size();
    Series forward(segments), first(order_.size()), last(order_.size()), backward(1);
    for (int step = -options_.warm_up; step < options_.steps; ++step) {
      const model::StepInput input{inputs_, labels_, static_cast<std::int64_t>(labels_.size()), 1};
      std::vector<double> times = {now()};
      for (std::size_t s = 1; s <= segments; ++s) {
        model_.forward(input, static_cast<int>(s));
        times.push_back(now());
      }
      Clock clock(bench.marks());
      model_.forward_backward(input, 0, clock);
      const double begin = times.back(), end = now();
      if (step < 0) continue;
      for (std::size_t s = 0; s < segments; ++s) forward.add(s, times[s + 1] - times[s]);
      for (std::size_t slot = 0; slot < order_.size(); ++slot) {
        auto [from, to] = bench.marks_of(slot);
        first.add(slot, complete_from(clock, from, to) - begin);
        last.add(slot, clock.at(to - 1) - begin);
      }
      backward.add(0, end - begin);
    }
    profile_ = describe();
    fill(forward, first, last, backward.at(0));
    profile_.update = time_update(bench);
    profile_.read = time_read();
    return std::move(profile_);
  }

 private:
  /// When the first element was complete, from when the parts were: each took as long as the ones after the
  /// first.
  static double complete_from(const Clock& clock, std::size_t from, std::size_t to) {
    const double first = clock.at(from), last = clock.at(to - 1);
    if (to - from < 2) return first;
    return first - (last - first) / static_cast<double>(to - from - 1);
  }

  plan::ModelProfile describe() const {
    plan::ModelProfile profile;
    profile.model = spec_.name;
    profile.batch = options_.samples;
    profile.compute = plan_.precision.compute;
    profile.divisible = spec_.divisible;
    profile.input = shape_.input;
    profile.classes = shape_.classes;
    for (const model::BufferSpec& buffer : spec_.buffers)
      profile.buffers.push_back(static_cast<std::int64_t>(buffer.count()));
    for (int parameter : order_)
      profile.completion.push_back(spec_.parameters[static_cast<std::size_t>(parameter)].name);
    for (const model::Segment& segment : spec_.segments) {
      profile.segments.push_back({segment.name, 0, 0, 0, 0, {}});
      for (int parameter : segment.parameters) {
        const model::ParameterSpec& spec = spec_.parameters[static_cast<std::size_t>(parameter)];
        profile.segments.back().parameters.push_back({spec.name, spec.shape, spec.trainable, 0, 0});
      }
    }
    return profile;
  }

  /// Medians don't add up to the median of the whole, so times of gradients are kept within it.
  void fill(const Series& forward, const Series& first, const Series& last, double backward) {
    std::map<std::string, std::pair<double, double>> times;
    for (std::size_t slot = 0; slot < order_.size(); ++slot) {
      const double end = std::clamp(last.at(slot), 0.0, backward);
      times[spec_.parameters[static_cast<std::size_t>(order_[slot])].name] = {
          std::clamp(first.at(slot), 0.0, end), end};
    }
    double done = 0;  // of the backward pass, by the segments behind
    for (std::size_t s = spec_.segments.size(); s-- > 0;) {
      plan::SegmentProfile& segment = profile_.segments[s];
      segment.forward = std::max(0.0, forward.at(s));
      double end = done;
      for (plan::ParameterProfile& parameter : segment.parameters) {
        if (!parameter.trainable) continue;
        std::tie(parameter.gradient_from, parameter.gradient) = times.at(parameter.name);
        end = std::max(end, parameter.gradient);
      }
      if (s == 0) end = backward;
      segment.backward = end - done;
      done = end;
    }
  }

  /// As the loader does: into memory of its own, and what no cache holds.
  std::vector<float> read(std::int64_t first) {
    const auto indices = sampler_.at(first, 1, 0).indices;
    labels_.resize(indices.size());
    std::vector<float> inputs(indices.size() * static_cast<std::size_t>(shape_.elements()));
    train_.read(indices, inputs, labels_);
    return inputs;
  }

  /// Changes the labels.
  double time_read() {
    const std::int64_t batches = std::max<std::int64_t>(1, train_.size() / options_.samples);
    std::vector<double> times;
    for (int step = 0; step < options_.steps; ++step) {
      const double begin = now();
      const auto inputs = read(step % batches * options_.samples);
      times.push_back(now() - begin);
    }
    return median(times);
  }

  double time_update(const Bench& bench) const {
    const optim::RuleRow* row = nullptr;
    for (const optim::RuleRow& each : optim::rule_table())
      if (each.name == plan_.optimiser.rule) row = &each;
    TAXON_CHECK(row != nullptr, plan_.optimiser.rule);
    const tensor::ArenaLayout& layout = bench.layout();
    tensor::Arena master(layout.type(), layout.size());
    auto rule = row->make(plan_.optimiser, {layout.type(), layout.size(), {}});
    std::vector<double> times;
    for (int step = -options_.warm_up; step < options_.steps; ++step) {
      optim::StepClock clock;
      clock.step = step + options_.warm_up;
      clock.rate = 1e-3;
      const double begin = now();
      rule->update(master, bench.gradients(), optim::Place::same({0, layout.size()}), clock);
      if (step >= 0) times.push_back(now() - begin);
    }
    return median(times);
  }

  model::Model& model_;
  const model::ModelSpec& spec_;
  const data::Dataset& train_;
  const plan::Plan& plan_;
  const ProfilingOptions options_;
  const data::SampleShape shape_;
  data::Sampler sampler_;
  std::vector<std::int64_t> labels_;
  std::vector<float> inputs_;
  std::vector<int> order_;
  plan::ModelProfile profile_;
};

}  // namespace

plan::ModelProfile measure_profile(model::Model& model, const data::Dataset& train, const plan::Plan& plan,
                                   const ProfilingOptions& options) {
  return Profiling(model, train, plan, options).run();
}

}  // namespace taxon::app
