#include "model/cost.h"

#include <algorithm>

namespace taxon::model {
namespace {

/// Of a pass of one sample.
struct Work {
  double seconds = 0, flops = 0;
  Work& operator+=(const Work& other) {
    seconds += other.seconds;
    flops += other.flops;
    return *this;
  }
  Work operator*(double factor) const { return {seconds * factor, flops * factor}; }
  tensor::Cost cost() const { return {flops, 0, from_seconds(seconds)}; }
  /// In whichever unit there is.
  double size() const { return seconds > 0 ? seconds : flops; }
};

Work forward_of(const Segment& segment) { return {segment.forward_seconds, segment.forward_flops}; }

Work backward_of(const Segment& segment) {
  return {segment.backward_seconds,
          segment.backward_flops > 0 ? segment.backward_flops : 2 * segment.forward_flops};
}

Work forward_work(const ModelSpec& spec, double from, double until) {
  Work work;
  for (std::size_t s = 0; s < spec.segments.size(); ++s) {
    const auto begin = static_cast<double>(s);
    const double share = std::min(until, begin + 1) - std::max(from, begin);
    if (share > 0) work += forward_of(spec.segments[s]) * share;
  }
  return work;
}

/// When each parameter's gradient is complete, in shares of the backward pass.
std::vector<GradientTime> gradient_times(const ModelSpec& spec) {
  if (!spec.gradient_times.empty()) return spec.gradient_times;
  double backward = 0;
  for (const Segment& segment : spec.segments) backward += backward_of(segment).size();
  std::vector<GradientTime> times(spec.parameters.size());
  double done = 0;
  for (auto segment = spec.segments.rbegin(); segment != spec.segments.rend(); ++segment) {
    done += backward_of(*segment).size();
    for (int parameter : segment->parameters)
      if (backward > 0) times[static_cast<std::size_t>(parameter)] = {done / backward, done / backward};
  }
  return times;
}

/// When the last element of `bucket` is complete.
double complete_at(Range bucket, const Binding& binding, const std::vector<GradientTime>& times) {
  double share = -1;
  for (std::size_t slot = 0; slot < binding.parameters.size(); ++slot) {
    const Range range = binding.layout->slots()[slot].range;
    if (range.begin >= bucket.end() || range.end() <= bucket.begin) continue;
    const GradientTime& time = times[static_cast<std::size_t>(binding.parameters[slot])];
    const auto done = static_cast<double>(std::min(range.end(), bucket.end()) - range.begin);
    share = std::max(share, time.begin + (time.end - time.begin) * done / static_cast<double>(range.size));
  }
  return share < 0 ? 1 : share;
}

/// The backward pass of one sample through a segment. What is left as factors is not multiplied.
Work backward_work(const ModelSpec& spec, std::size_t segment, Gradients which, const Binding& binding) {
  double spared = 0;
  for (const FactorSlot& slot : binding.factor_slots) {
    const int parameter = binding.parameters[slot.slot];
    if (which != Gradients::OfInputs && spec.segment_of(parameter) == static_cast<int>(segment))
      spared += 2 * static_cast<double>(spec.parameters[static_cast<std::size_t>(parameter)].count());
  }
  const Work all = backward_of(spec.segments[segment]) * (which == Gradients::All ? 1 : 0.5);
  return all * (all.flops > spared ? 1 - spared / all.flops : 1);
}

Work backward_work(const ModelSpec& spec, const Binding& binding) {
  Work backward;
  for (std::size_t s = 0; s < spec.segments.size(); ++s)
    backward += backward_work(spec, s, Gradients::All, binding);
  return backward;
}

}  // namespace

double micro_batch_samples(const StepInput& input) {
  return static_cast<double>(input.samples()) / std::max(1, input.micro_batches);
}

tensor::Cost forward_cost(const ModelSpec& spec, double samples, double from, double until) {
  return (forward_work(spec, from, until) * samples).cost();
}

StepCost step_cost(const ModelSpec& spec, const StepInput& input, double from, const Binding& binding) {
  const int segments = static_cast<int>(spec.segments.size());
  const Work backward = backward_work(spec, binding);
  Work work = forward_work(spec, from, segments);
  work += (forward_work(spec, 0, segments)) * (input.micro_batches - 1);
  work += backward * input.micro_batches;
  StepCost step;
  step.cost = (work * micro_batch_samples(input)).cost();
  const double total = work.size();
  if (total <= 0) return step;
  const double last = backward.size() / total;  // the share of the pass that completes gradients
  const auto times = gradient_times(spec);
  for (const BucketRange& bucket : binding.buckets)
    step.bucket_shares.push_back(1 - last + last * complete_at(bucket.weights, binding, times));
  return step;
}

StepCost backward_cost(const ModelSpec& spec, double samples, Range segments, Gradients which,
                       const Binding& binding, plan::Activations activations) {
  Work work;
  if (activations == plan::Activations::Recomputed && which != Gradients::OfWeights)
    work = forward_work(spec, static_cast<double>(segments.begin), static_cast<double>(segments.end()));
  std::vector<double> done(spec.segments.size(), 0);  // when each segment's pass ends
  for (std::size_t s = segments.end(); s-- > segments.begin;) {
    work += backward_work(spec, s, which, binding);
    done[s] = work.size();
  }
  StepCost pass;
  pass.cost = (work * samples).cost();
  if (work.size() <= 0) return pass;
  for (const BucketRange& bucket : binding.buckets) {
    double last = -1;
    for (std::size_t slot = 0; slot < binding.parameters.size(); ++slot) {
      const Range range = binding.layout->slots()[slot].range;
      if (range.begin >= bucket.weights.end() || range.end() <= bucket.weights.begin) continue;
      const auto segment = static_cast<std::size_t>(spec.segment_of(binding.parameters[slot]));
      if (segment >= segments.begin && segment < segments.end()) last = std::max(last, done[segment]);
    }
    pass.bucket_shares.push_back(last < 0 || which == Gradients::OfInputs ? 1 : last / work.size());
  }
  return pass;
}

tensor::Cost piece_cost(const ModelSpec& spec, const StepInput& input, double begun, int from) {
  const int segments = static_cast<int>(spec.segments.size());
  Work work = backward_of(spec.segments[static_cast<std::size_t>(from)]);
  if (from == segments - 1) work += forward_work(spec, begun, segments);
  return (work * micro_batch_samples(input)).cost();
}

}  // namespace taxon::model
