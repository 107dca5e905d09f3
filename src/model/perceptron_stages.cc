#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/error.h"
#include "model/division.h"
#include "model/perceptron.h"

namespace taxon::model {

/// Its layers are the segments; a stage has one or both. Members of a tensor axis have some of the features
/// between them: the first layer is split by its outputs and the second by its inputs, so that the logits are
/// the sum of what members make, and the loss is a piece of its own.
class Perceptron::Stages final : public Staged {
 public:
  explicit Stages(Perceptron& model) : model_(model) {}
  void divide(const Division& division) override;
  const std::vector<Piece>& pieces() const override { return pieces_; }
  void begin_step(const StepInput& input) override;
  void use_weights(std::size_t version) override {
    if (!model_.binding_.versions.empty()) model_.binding_.weights = model_.binding_.versions[version];
    model_.load_all();
  }
  void begin_forward(int piece, const MicroBatch& micro, ConstView input, std::size_t until) override;
  void forward(int piece, const MicroBatch& micro, ConstView input, View output) override;
  void backward(int piece, const MicroBatch& micro, Gradients which, ConstView output_gradient,
                View input_gradient, bool last, tensor::Milestones& marks) override;
  StepOutput end_step() override;
  void abandon_step() override {
    kept_.clear();
    model_.gradients_.clear();
    model_.layers_ = {};
  }
  StepOutput evaluate(int piece, data::Inputs inputs, data::Values labels, ConstView input,
                      View output) override;

 private:
  /// Of a micro-batch's samples in a piece, one after the other.
  struct Kept {
    std::vector<double> activations;
    std::vector<double> logits;  // once they are known: gradients of them
    std::vector<double> back;    // gradients of activations, in the first layer of what is in front of them
    ConstView input;             // from which the others are computed again
    bool left_out = false;       // they are
  };
  /// What is in a piece.
  struct Content {
    bool hidden = false, out = false, loss = false;
  };
  void split(const Division& division);
  /// The activations behind the first layer.
  std::vector<double> hidden_of(const MicroBatch& micro) const;
  /// `activations`: those, where they are known.
  Kept compute(const Content& content, const MicroBatch& micro, ConstView input, StepOutput& output,
               std::vector<double> activations = {}) const;
  void begin_gradients();
  /// Reads what the piece's parameters are now.
  void load(int piece);
  /// Numbers of the compute type.
  std::vector<double> read(ConstView from, std::size_t count) const;
  void write(const std::vector<double>& values, View to) const;

  Perceptron& model_;
  std::vector<Piece> pieces_;
  std::vector<Content> contents_;             // of each
  std::map<std::pair<int, int>, Kept> kept_;  // by piece and micro-batch
  plan::Activations activations_ = plan::Activations::Kept;
  std::size_t arena_ = 0;        // of the step's gradients
  std::size_t pieces_left_ = 0;  // whose last pass over the gradients is to come
  StepOutput output_;
};

Staged* Perceptron::staged() {
  if (!stages_) stages_ = std::make_unique<Stages>(*this);
  return stages_.get();
}

void Perceptron::Stages::divide(const Division& division) {
  TAXON_CHECK(pieces_.empty() && model_.binding_.layout == nullptr, "divide() comes once, before bind()");
  activations_ = division.activations;
  if (division.members > 1) split(division);
  HeldStages held = held_stages(model_.spec_, division);
  if (division.members > 1 || division.segments_apart) {
    const bool whole = division.members == 1;
    const parallel::SplitRow* rows[] = {&parallel::find_split(whole ? "none" : "outputs"),
                                        &parallel::find_split(whole ? "none" : "inputs")};
    cut_pieces(held, model_.spec_, division, rows);
  }
  Values values(model_.values_.size());
  for (int p : held.parameters)
    std::swap(values[static_cast<std::size_t>(p)], model_.values_[static_cast<std::size_t>(p)]);
  model_.values_ = std::move(values);
  model_.held_ = std::move(held.parameters);
  model_.spec_ = std::move(held.spec);
  pieces_ = std::move(held.pieces);
  for (const Piece& piece : pieces_) {
    Content& content = contents_.emplace_back();
    content.loss = piece.outputs == 0;
    for (std::size_t s = piece.segments.begin; s < piece.segments.end(); ++s)
      (held.segments[s] == 0 ? content.hidden : content.out) = true;
  }
}

void Perceptron::Stages::split(const Division& division) {
  const auto members = static_cast<std::size_t>(division.members);
  if (!division.splits.empty() || division.choose)
    throw Error(ErrorKind::Usage,
                "mesh.splits: the layers of model perceptron are split in one way; leave it out");
  if (model_.hidden_ % members != 0)
    throw Error(ErrorKind::Usage,
                fmt::format("mesh.tensor: hidden has {} outputs, which {} members can't share equally",
                            model_.hidden_, members));
  ModelSpec& spec = model_.spec_;
  spec.members = division.members;
  spec.member = division.member;
  for (Segment& segment : spec.segments)
    for (double Segment::*cost :
         {&Segment::forward_flops, &Segment::forward_seconds, &Segment::backward_seconds})
      segment.*cost /= static_cast<double>(members);
  model_.hidden_ /= members;
  spec.segments.front().outputs = static_cast<std::int64_t>(model_.hidden_);
  spec.segments.back().outputs = static_cast<std::int64_t>(model_.classes_);
  const std::pair<std::size_t, int> cuts[] = {{kHiddenWeight, 0}, {kHiddenBias, 0}, {kOutWeight, 1}};
  for (const auto& [index, dimension] : cuts) {
    ParameterSpec& parameter = spec.parameters[index];
    parameter.split = dimension;
    parameter.shape[static_cast<std::size_t>(dimension)] /= division.members;
    const std::vector<double> whole = std::exchange(model_.values_[index], {});
    for (Range run : part_of_whole(parameter.shape, dimension, 1, division.members, division.member)) {
      const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(run.begin);
      model_.values_[index].insert(model_.values_[index].end(), begin,
                                   begin + static_cast<std::ptrdiff_t>(run.size));
    }
  }
}

void Perceptron::Stages::begin_step(const StepInput& input) {
  begin_gradients();
  arena_ = input.gradients;
  output_ = {};
}

void Perceptron::Stages::begin_gradients() {
  model_.gradients_.clear();
  for (const auto& value : model_.values_) model_.gradients_.emplace_back(value.size(), 0.0);
  model_.progress_.begin();
  pieces_left_ = pieces_.size();
}

void Perceptron::Stages::load(int piece) {
  const Range segments = pieces_[static_cast<std::size_t>(piece)].segments;
  for (std::size_t s = segments.begin; s < segments.end(); ++s) model_.load(static_cast<int>(s));
}

std::vector<double> Perceptron::Stages::read(ConstView from, std::size_t count) const {
  return dispatch(model_.binding_.weights->type(), [&](auto zero) {
    using T = decltype(zero);
    const std::span<const T> values = as_span<T>(from);
    TAXON_CHECK(values.size() == count, values.size(), " numbers, not ", count);
    std::vector<double> wide;
    for (const T& value : values) wide.push_back(static_cast<Wide<T>>(value));
    return wide;
  });
}

void Perceptron::Stages::write(const std::vector<double>& values, View to) const {
  dispatch(model_.binding_.weights->type(), [&](auto zero) {
    using T = decltype(zero);
    TAXON_CHECK(to.size() == values.size() * sizeof(T), to.size(), " bytes for ", values.size(), " numbers");
    auto* out = reinterpret_cast<T*>(to.data());
    for (double value : values) *out++ = T(static_cast<Wide<T>>(value));
  });
}

std::vector<double> Perceptron::Stages::hidden_of(const MicroBatch& micro) const {
  const Range samples = micro.samples();
  std::vector<double> activations(samples.size * model_.hidden_);
  for (std::size_t n = 0; n < samples.size; ++n)
    model_.hidden_forward(
        data::numbers(micro.step->inputs.parts[0]).data() + (samples.begin + n) * model_.inputs_,
        &activations[n * model_.hidden_]);
  return activations;
}

Perceptron::Stages::Kept Perceptron::Stages::compute(const Content& content, const MicroBatch& micro,
                                                     ConstView input, StepOutput& output,
                                                     std::vector<double> activations) const {
  const Range samples = micro.samples();
  const StepInput& step = *micro.step;
  const std::size_t hidden = model_.hidden_, classes = model_.classes_;
  Kept kept;
  if (content.hidden)
    kept.activations = activations.empty() ? hidden_of(micro) : std::move(activations);
  else if (content.out)
    kept.activations = read(input, samples.size * hidden);
  if (content.out) {
    kept.logits.resize(samples.size * classes);
    for (std::size_t n = 0; n < samples.size; ++n)
      model_.out_forward(&kept.activations[n * hidden], &kept.logits[n * classes]);
  } else if (content.loss) {
    kept.logits = read(input, samples.size * classes);
  }
  if (content.loss)
    for (std::size_t n = 0; n < samples.size; ++n)
      model_.loss(&kept.logits[n * classes], data::whole(step.labels)[samples.begin + n],
                  1.0 / static_cast<double>(step.global_size), output, &kept.logits[n * classes]);
  return kept;
}

/// The first layer, where the second one is in the piece too.
void Perceptron::Stages::begin_forward(int index, const MicroBatch& micro, ConstView, std::size_t until) {
  const Content content = contents_[static_cast<std::size_t>(index)];
  const std::size_t first = pieces_[static_cast<std::size_t>(index)].segments.begin;
  if (!content.hidden || until == first || micro.samples().size == 0) return;
  model_.load(static_cast<int>(first));
  kept_[{index, micro.index}].activations = hidden_of(micro);
}

void Perceptron::Stages::forward(int index, const MicroBatch& micro, ConstView input, View output) {
  const Range samples = micro.samples();
  if (samples.size == 0) return;
  const Content content = contents_[static_cast<std::size_t>(index)];
  load(index);
  Kept kept = compute(content, micro, input, output_, std::move(kept_[{index, micro.index}].activations));
  if (content.hidden) model_.seen_ += static_cast<double>(samples.size);
  if (!content.loss) write(content.out ? kept.logits : kept.activations, output);
  if (activations_ == plan::Activations::Recomputed) kept = {.input = input, .left_out = true};
  kept_[{index, micro.index}] = std::move(kept);
}

void Perceptron::Stages::backward(int index, const MicroBatch& micro, Gradients which,
                                  ConstView output_gradient, View input_gradient, bool last,
                                  tensor::Milestones& marks) {
  const Range samples = micro.samples();
  const Content content = contents_[static_cast<std::size_t>(index)];
  const std::size_t hidden = model_.hidden_, classes = model_.classes_;
  if (pieces_left_ == 0) begin_gradients();
  load(index);
  if (samples.size > 0 && which != Gradients::OfWeights) {
    Kept& kept = kept_.at({index, micro.index});
    StepOutput counted_before;
    if (kept.left_out) kept = compute(content, micro, kept.input, counted_before);
    if (content.out) {
      if (!content.loss) kept.logits = read(output_gradient, samples.size * classes);
      kept.back.resize(samples.size * hidden);
      for (std::size_t n = 0; n < samples.size; ++n)
        model_.out_backward(&kept.logits[n * classes], &kept.back[n * hidden]);
    } else if (content.hidden) {
      kept.back = read(output_gradient, samples.size * hidden);
    }
    if (content.hidden)
      for (std::size_t n = 0; n < samples.size; ++n)
        model_.hidden_backward(&kept.activations[n * hidden], &kept.back[n * hidden]);
    else
      write(content.out ? kept.back : kept.logits, input_gradient);
  }
  if (samples.size > 0 && which != Gradients::OfInputs) {
    const Kept& kept = kept_.at({index, micro.index});
    for (std::size_t n = 0; n < samples.size; ++n) {
      if (content.out) model_.out_weights(&kept.logits[n * classes], &kept.activations[n * hidden]);
      if (content.hidden)
        model_.hidden_weights(&kept.back[n * hidden], data::numbers(micro.step->inputs.parts[0]).data() +
                                                          (samples.begin + n) * model_.inputs_);
    }
    kept_.erase({index, micro.index});
  }
  if (!last) return;
  const Range segments = pieces_[static_cast<std::size_t>(index)].segments;
  model_.store_gradients(arena_, static_cast<int>(segments.begin), static_cast<int>(segments.end()), marks);
  if (--pieces_left_ == 0) model_.progress_.finish(marks);
}

StepOutput Perceptron::Stages::end_step() {
  TAXON_CHECK(kept_.empty(), kept_.size(), " passes have no backward pass");
  abandon_step();
  return std::exchange(output_, {});
}

StepOutput Perceptron::Stages::evaluate(int index, data::Inputs inputs, data::Values labels, ConstView input,
                                        View output) {
  const Content content = contents_[static_cast<std::size_t>(index)];
  const std::size_t hidden = model_.hidden_, classes = model_.classes_;
  load(index);
  std::vector<double> activations(labels.size() * hidden), logits(labels.size() * classes);
  if (!content.hidden && content.out) activations = read(input, activations.size());
  if (!content.hidden && !content.out) logits = read(input, logits.size());
  StepOutput sums;
  for (std::size_t n = 0; n < labels.size(); ++n) {
    if (content.hidden)
      model_.hidden_forward(data::numbers(inputs.parts[0]).data() + n * model_.inputs_,
                            &activations[n * hidden]);
    if (content.out) model_.out_forward(&activations[n * hidden], &logits[n * classes]);
    if (content.loss) model_.loss(&logits[n * classes], data::whole(labels)[n], 0, sums, nullptr);
  }
  if (!content.loss) write(content.out ? logits : activations, output);
  return sums;
}

}  // namespace taxon::model
