#include "model/perceptron.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/rng.h"
#include "model/frozen.h"

namespace taxon::model {
namespace {

void store(const std::vector<double>& values, const tensor::Arena& arena, Range range) {
  dispatch(arena.type(), [&](auto zero) {
    using T = decltype(zero);
    using Wide = std::conditional_t<sizeof(T) == 8, double, float>;
    auto out = arena.values<T>(range);
    for (std::size_t i = 0; i < values.size(); ++i) out[i] = T(static_cast<Wide>(values[i]));
  });
}

}  // namespace

Perceptron::Perceptron(const PerceptronOptions& options)
    : inputs_(static_cast<std::size_t>(options.shape.elements())),
      hidden_(static_cast<std::size_t>(options.hidden)),
      classes_(static_cast<std::size_t>(options.shape.classes)),
      activations_(hidden_),
      logits_(classes_),
      back_(hidden_) {
  const std::int64_t d = options.shape.elements(), h = options.hidden, c = options.shape.classes;
  spec_.name = "perceptron";
  spec_.task = options.task;
  spec_.parameters = {
      {"hidden.weight", {h, d}}, {"hidden.bias", {h}}, {"out.weight", {c, h}}, {"out.bias", {c}}};
  for (int weight : {kHiddenWeight, kOutWeight})
    spec_.parameters[static_cast<std::size_t>(weight)].linear = true;
  spec_.segments = {{"hidden", {kHiddenWeight, kHiddenBias}, 2.0 * static_cast<double>(h * d)},
                    {"out", {kOutWeight, kOutBias}, 2.0 * static_cast<double>(c * h)}};
  const PassSeconds* seconds[] = {&options.hidden_seconds, &options.out_seconds};
  for (std::size_t s = 0; s < spec_.segments.size(); ++s) {
    spec_.segments[s].forward_seconds = seconds[s]->forward;
    spec_.segments[s].backward_seconds = seconds[s]->backward;
  }
  if (options.idle > 0) {
    spec_.parameters.push_back({"idle", {options.idle}});
    spec_.segments.back().parameters.push_back(kIdle);
  }
  spec_.segments.front().outputs = h;
  spec_.buffers = {{"seen", {1}}};
  held_ = {kHiddenWeight, kHiddenBias, kOutWeight, kOutBias, kIdle};
  held_.resize(spec_.parameters.size());
  spec_.divisible = true;
  freeze(options.frozen);
  spec_.find_weights_by_rows();
  Rng rng(options.seed, "perceptron");
  for (const auto& parameter : spec_.parameters) {
    values_.emplace_back(static_cast<std::size_t>(parameter.count()));
    // Rounded, so that a bfloat16 run and a float64 run start from values that both can hold.
    for (double& value : values_.back()) value = static_cast<float>((rng.uniform() - 0.5) * 0.6);
  }
}

void Perceptron::freeze(const std::vector<std::string>& patterns) {
  std::vector<std::string> names;
  for (const ParameterSpec& parameter : spec_.parameters) names.push_back(parameter.name);
  const std::vector<bool> frozen = find_frozen(spec_.name, names, patterns);
  for (std::size_t p = 0; p < names.size(); ++p) spec_.parameters[p].trainable = !frozen[p];
  if (std::find(frozen.begin(), frozen.end(), false) == frozen.end())
    throw Error(ErrorKind::Usage, "model perceptron has no parameter to train; freeze fewer (model.frozen)");
}

std::vector<int> Perceptron::gradient_order(data::Inputs, data::Values) {
  std::vector<int> order;
  for (int index : {kOutBias, kOutWeight, kHiddenBias, kHiddenWeight, kIdle})
    for (std::size_t p = 0; p < held_.size(); ++p)
      if (held_[p] == index && spec_.parameters[p].trainable) order.push_back(static_cast<int>(p));
  return order;
}

void Perceptron::bind(const Binding& binding) {
  binding_ = binding;
  progress_ = Progress(binding);
  if (binding.in_parts()) return;
  for (std::size_t slot = 0; slot < binding.parameters.size(); ++slot)
    store(values_[held(binding.parameters[slot])], *binding.weights, binding.layout->slots()[slot].range);
  load_all();  // what the type of the weights has left of them
}

void Perceptron::unbind() {
  if (!binding_.in_parts()) load_all();
  binding_ = {};
}

void Perceptron::load_all() {
  for (int segment = 0; segment < static_cast<int>(spec_.segments.size()); ++segment) load(segment);
}

void Perceptron::load(int segment) {
  const auto& mine = spec_.segments[static_cast<std::size_t>(segment)].parameters;
  for (std::size_t slot = 0; slot < binding_.parameters.size(); ++slot) {
    if (std::find(mine.begin(), mine.end(), binding_.parameters[slot]) == mine.end()) continue;
    auto& value = values_[held(binding_.parameters[slot])];
    dispatch(binding_.weights->type(), [&](auto zero) {
      using T = decltype(zero);
      auto stored = binding_.weights->values<T>(binding_.weight(slot));
      for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<Wide<T>>(stored[i]);
    });
  }
}

/// Remembers the values of the segments that it may read: the others' may still change.
void Perceptron::forward(const StepInput&, int until) {
  for (; begun_ < until; ++begun_) load(begun_);
}

StepOutput Perceptron::forward_backward(const StepInput& input, int from, tensor::Milestones& marks) {
  forward(input, static_cast<int>(spec_.segments.size()));
  if (gradients_.empty()) {
    begin_backward(input);
    stored_ = static_cast<int>(spec_.segments.size());
  }
  store_gradients(input.gradients, from, stored_, marks);
  stored_ = from;
  if (from == 0) {
    progress_.finish(marks);
    gradients_.clear();
    layers_ = {};
    begun_ = 0;
  }
  return output_;
}

void Perceptron::store_gradients(std::size_t gradients, int from, int until, tensor::Milestones& marks) {
  for (std::size_t slot = 0; slot < binding_.parameters.size(); ++slot) {
    const int segment = spec_.segment_of(binding_.parameters[slot]);
    if (segment < from || segment >= until) continue;
    const auto parameter = held(binding_.parameters[slot]);
    if (const FactorSlot* factors = binding_.factors_of(slot))
      store_factors(parameter, *factors, *binding_.factors[gradients]);
    else
      store(gradients_[parameter], *binding_.gradients[gradients], binding_.gradient(slot));
    progress_.completed(binding_.layout->slots()[slot].range, marks);
  }
}

void Perceptron::store_factors(std::size_t parameter, const FactorSlot& slot, const tensor::Arena& arena) {
  const Layer& layer = layers_[parameter == kHiddenWeight ? 0 : 1];
  TAXON_CHECK(layer.outputs.size() <= slot.outputs.size, "more samples than ", slot.rows);
  const std::pair<const std::vector<double>*, Range> parts[] = {{&layer.outputs, slot.outputs},
                                                                {&layer.inputs, slot.inputs}};
  for (const auto& [values, range] : parts) {
    std::vector<double> padded = *values;
    padded.resize(range.size, 0.0);
    store(padded, arena, range);
  }
}

void Perceptron::begin_backward(const StepInput& input) {
  for (const auto& value : values_) gradients_.emplace_back(value.size(), 0.0);
  output_ = {};
  std::vector<double> gradient(classes_);
  for (std::size_t n = 0; n < input.labels.size(); ++n) {
    const float* sample = data::numbers(input.inputs.parts[0]).data() + n * inputs_;
    hidden_forward(sample, activations_.data());
    out_forward(activations_.data(), logits_.data());
    loss(logits_.data(), data::whole(input.labels)[n], 1.0 / static_cast<double>(input.global_size), output_,
         gradient.data());
    out_weights(gradient.data(), activations_.data());
    out_backward(gradient.data(), back_.data());
    hidden_backward(activations_.data(), back_.data());
    hidden_weights(back_.data(), sample);
  }
  seen_ += static_cast<double>(input.labels.size());
  progress_.begin();
}

StepOutput Perceptron::evaluate(data::Inputs inputs, data::Values labels) {
  load_all();
  StepOutput output;
  for (std::size_t n = 0; n < labels.size(); ++n) {
    hidden_forward(data::numbers(inputs.parts[0]).data() + n * inputs_, activations_.data());
    out_forward(activations_.data(), logits_.data());
    loss(logits_.data(), data::whole(labels)[n], 0, output, nullptr);
  }
  return output;
}

void Perceptron::hidden_forward(const float* input, double* activations) const {
  const std::vector<double>& weight = values_[kHiddenWeight];
  for (std::size_t h = 0; h < hidden_; ++h) {
    double sum = values_[kHiddenBias][h];
    for (std::size_t d = 0; d < inputs_; ++d) sum += weight[h * inputs_ + d] * input[d];
    activations[h] = std::tanh(sum);
  }
}

void Perceptron::out_forward(const double* activations, double* logits) const {
  const std::vector<double>& weight = values_[kOutWeight];
  for (std::size_t c = 0; c < classes_; ++c) {
    // What members of a tensor axis make is summed: one of them adds the bias.
    logits[c] = spec_.member == 0 ? values_[kOutBias][c] : 0;
    for (std::size_t h = 0; h < hidden_; ++h) logits[c] += weight[c * hidden_ + h] * activations[h];
  }
}

void Perceptron::loss(const double* logits, std::int64_t label, double scale, StepOutput& output,
                      double* gradient) const {
  const std::span<const double> all(logits, classes_);
  const double most = *std::max_element(all.begin(), all.end());
  double total = 0;
  for (double logit : all) total += std::exp(logit - most);
  const double log_total = std::log(total) + most;
  // A label's share is spread over all classes in training.
  const double spread = gradient == nullptr ? 0 : spec_.task.label_smoothing;
  const double everywhere = spread / static_cast<double>(classes_);
  output.loss_sum += (1 - spread) * (log_total - logits[label]);
  if (spread > 0)
    for (double logit : all) output.loss_sum += everywhere * (log_total - logit);
  count(logits, static_cast<std::size_t>(label), output);
  if (gradient == nullptr) return;
  for (std::size_t c = 0; c < classes_; ++c) {
    const double wanted = (static_cast<std::int64_t>(c) == label ? 1 - spread : 0) + everywhere;
    gradient[c] = (std::exp(logits[c] - most) / total - wanted) * scale;
  }
}

void Perceptron::out_backward(const double* gradient, double* back) const {
  std::fill_n(back, hidden_, 0.0);
  for (std::size_t c = 0; c < classes_; ++c)
    for (std::size_t h = 0; h < hidden_; ++h) back[h] += gradient[c] * values_[kOutWeight][c * hidden_ + h];
}

void Perceptron::hidden_backward(const double* activations, double* back) const {
  for (std::size_t h = 0; h < hidden_; ++h) back[h] *= 1 - activations[h] * activations[h];
}

void Perceptron::out_weights(const double* gradient, const double* activations) {
  for (std::size_t c = 0; c < classes_; ++c) {
    gradients_[kOutBias][c] += gradient[c];
    for (std::size_t h = 0; h < hidden_; ++h)
      gradients_[kOutWeight][c * hidden_ + h] += gradient[c] * activations[h];
  }
  if (binding_.factor_slots.empty()) return;
  layers_[1].outputs.insert(layers_[1].outputs.end(), gradient, gradient + classes_);
  layers_[1].inputs.insert(layers_[1].inputs.end(), activations, activations + hidden_);
}

void Perceptron::hidden_weights(const double* back, const float* input) {
  for (std::size_t h = 0; h < hidden_; ++h) {
    gradients_[kHiddenBias][h] += back[h];
    for (std::size_t d = 0; d < inputs_; ++d)
      gradients_[kHiddenWeight][h * inputs_ + d] += back[h] * input[d];
  }
  if (binding_.factor_slots.empty()) return;
  layers_[0].outputs.insert(layers_[0].outputs.end(), back, back + hidden_);
  layers_[0].inputs.insert(layers_[0].inputs.end(), input, input + inputs_);
}

void Perceptron::count(const double* logits, std::size_t label, StepOutput& output) const {
  // Of equal ones the first is the likeliest.
  std::int64_t before = 0;
  for (std::size_t c = 0; c < classes_; ++c)
    before += logits[c] > logits[label] || (c < label && logits[c] == logits[label]);
  for (std::size_t i = 0; i < spec_.task.counts; ++i) output.counts[i] += before < spec_.task.among[i];
}

std::vector<double> Perceptron::parameters() const {
  std::vector<double> all;
  for (const auto& value : values_) all.insert(all.end(), value.begin(), value.end());
  return all;
}

void Perceptron::set_parameters(std::span<const double> values) {
  for (auto& value : values_) {
    std::copy_n(values.begin(), value.size(), value.begin());
    values = values.subspan(value.size());
  }
}

namespace {

std::unique_ptr<Model> build(const ModelContext& context) {
  if (context.shape.has_real_targets())
    throw Error(ErrorKind::Usage,
                "model.name: perceptron has the loss of classes only, and these samples have " +
                    data::describe(context.shape) + "; choose another model, such as mlp");
  return std::make_unique<Perceptron>(PerceptronOptions{.shape = context.shape,
                                                        .seed = context.seed,
                                                        .frozen = context.plan->frozen,
                                                        .task = task_of(context)});
}

}  // namespace

ModelRow perceptron() {
  return {
      .name = "perceptron", .sentence = "fc 16, without libtorch: for simulations and tests.", .make = build};
}

}  // namespace taxon::model
