#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/bench.h"
#include "model/staged.h"
#include "program/schedule.h"

namespace taxon::model {

using MakeModel = std::function<std::unique_ptr<Model>()>;

inline double relative_distance(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double squares = 0, of_b = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    squares += (a[i] - b[i]) * (a[i] - b[i]);
    of_b += b[i] * b[i];
  }
  return std::sqrt(squares) / std::max(std::sqrt(of_b), 1e-30);
}

/// As many stages as asked, of nearly equally many segments.
inline std::vector<Range> cut_into(int stages, const ModelSpec& spec) {
  std::vector<Range> cuts;
  for (int s = 0; s < stages; ++s)
    cuts.push_back(
        part({0, spec.segments.size()}, static_cast<std::size_t>(stages), static_cast<std::size_t>(s)));
  return cuts;
}

/// Also of fewer micro-batches than stages, which is slow and right.
inline program::Program program_of(const program::ScheduleRow& row, const program::Shape& shape) {
  program::Program program{.stages = shape.stages, .micros = shape.micros};
  const int ranks = row.ranks(shape, {});
  for (int stage = 0; stage < shape.stages; ++stage) program.rank_of.push_back(stage % ranks);
  for (int rank = 0; rank < ranks; ++rank) program.ranks.push_back(row.actions(shape, rank, {}));
  return program;
}

/// The ranks of a pipeline in one process: each has a divided model with arenas, the test moves what travels.
/// What a rank gets is in memory of its own, and is spoilt as soon as it may be.
class Pipeline {
 public:
  Pipeline(const MakeModel& make, DType type, const std::string& schedule, int stages, int micros)
      : program_(program_of(program::find_schedule(schedule), {stages, micros})), size_(size_of(type)) {
    const std::vector<Range> cuts = cut_into(stages, make()->spec());
    for (std::size_t rank = 0; rank < program_.ranks.size(); ++rank) {
      Division division{.stages = cuts};
      for (int stage = 0; stage < stages; ++stage)
        if (program_.rank_at(stage) == static_cast<int>(rank)) division.held.push_back(stage);
      std::unique_ptr<Model> model = make();
      Staged* staged = model->staged();
      TAXON_CHECK(staged != nullptr);
      staged->divide(division);
      ranks_.push_back({staged, std::make_unique<Bound>(std::move(model), type, type)});
    }
  }

  StepOutput step(const StepInput& input) {
    activations_.clear();
    gradients_.clear();
    std::vector<std::size_t> next(ranks_.size(), 0);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].bound->fill_gradients(7);  // of the step before
      ranks_[r].marks = std::make_unique<Marks>(*ranks_[r].bound);
      ranks_[r].staged->begin_step(input);
    }
    for (bool any = true; any;) {
      any = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r)
        for (; next[r] < program_.ranks[r].size() && run(r, next[r], input); ++next[r]) any = true;
    }
    StepOutput output;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      EXPECT_EQ(next[r], program_.ranks[r].size()) << "rank " << r << " is stuck";
      output += ranks_[r].staged->end_step();
      check_marks(ranks_[r]);
    }
    return output;
  }

  StepOutput evaluate(const StepInput& input) {
    std::vector<std::byte> last;
    StepOutput output;
    for (int stage = 0; stage < program_.stages; ++stage) {
      const auto& [staged, piece] = at(stage);
      std::vector<std::byte> next =
          buffer(staged->pieces()[static_cast<std::size_t>(piece)].outputs, input.samples());
      output += staged->evaluate(piece, input.inputs, input.labels, ConstView(last.data(), last.size()),
                                 View(next.data(), next.size()));
      last = std::move(next);
    }
    return output;
  }

  /// Summed over ranks that make a summand each.
  std::vector<double> gradient(const std::string& name) const {
    std::vector<double> sum;
    for (const Rank& rank : ranks_)
      for (const ParameterSpec& parameter : (*rank.bound)->spec().parameters) {
        if (parameter.name != name) continue;
        const std::vector<double> own = rank.bound->gradient(name);
        sum.resize(own.size(), 0);
        for (std::size_t i = 0; i < own.size(); ++i) sum[i] += own[i];
      }
    return sum;
  }
  std::vector<double> buffers() const {
    std::vector<double> all;
    for (const Rank& rank : ranks_)
      for (double value : (*rank.bound)->buffers()) all.push_back(value);
    return all;
  }
  Bound& rank(int index) { return *ranks_[static_cast<std::size_t>(index)].bound; }
  Staged& staged(int index) { return *ranks_[static_cast<std::size_t>(index)].staged; }

 private:
  using Bytes = std::vector<std::byte>;
  /// What each bucket held when it was reached.
  struct Marks final : tensor::Milestones {
    explicit Marks(const Bound& of) : bound(of) {}
    void reached(int index) override {
      EXPECT_TRUE(buckets.emplace(index, bytes_of(index)).second)
          << "bucket " << index << " is reached again";
    }
    Bytes bytes_of(int index) const {
      const View view =
          bound.gradients.bytes(bound.binding().buckets[static_cast<std::size_t>(index)].gradients);
      return Bytes(view.data(), view.data() + view.size());
    }
    const Bound& bound;
    std::map<int, Bytes> buckets;
  };
  struct Rank {
    Staged* staged;
    std::unique_ptr<Bound> bound;
    std::unique_ptr<Marks> marks = nullptr;
  };

  Bytes buffer(std::int64_t elements, std::size_t samples) const {
    return Bytes(static_cast<std::size_t>(elements) * samples * size_, std::byte{0x7f});
  }
  std::pair<Staged*, int> at(int stage) const {
    Staged* staged = ranks_[static_cast<std::size_t>(program_.rank_at(stage))].staged;
    for (std::size_t p = 0; p < staged->pieces().size(); ++p)
      if (staged->pieces()[p].stage == stage) return {staged, static_cast<int>(p)};
    throw std::logic_error("a stage that its rank has not");
  }
  bool makes_more(std::size_t r, std::size_t index) const {
    const auto& actions = program_.ranks[r];
    return std::any_of(
        actions.begin() + static_cast<std::ptrdiff_t>(index) + 1, actions.end(), [&](const auto& later) {
          return later.stage == actions[index].stage && program::makes_weight_gradient(later.kind);
        });
  }

  /// False: what it needs is not there.
  bool run(std::size_t r, std::size_t index, const StepInput& input) {
    const program::Action& action = program_.ranks[r][index];
    if (!program::computes(action.kind)) return true;
    const std::pair key{action.stage, action.micro};
    const MicroBatch micro{&input, action.micro, program_.micros};
    const auto [staged, p] = at(action.stage);
    const Piece& piece = staged->pieces()[static_cast<std::size_t>(p)];
    const std::size_t samples = micro.samples().size;
    const std::pair before{action.stage - 1, action.micro}, after{action.stage + 1, action.micro};
    if (action.kind == program::ActionKind::Forward) {
      if (action.stage > 0 && !activations_.contains(before)) return false;
      Bytes& taken = action.stage > 0 ? activations_[before] : none_;
      Bytes made = buffer(piece.outputs, samples);
      staged->forward(p, micro, ConstView(taken.data(), taken.size()), View(made.data(), made.size()));
      activations_[key] = made;
      std::fill(made.begin(), made.end(), std::byte{0x7f});
      return true;
    }
    const bool of_inputs = program::makes_input_gradient(action.kind);
    const bool of_weights = program::makes_weight_gradient(action.kind);
    const bool is_last = program_.is_last(action.stage);
    if (of_inputs && !is_last && !gradients_.contains(after)) return false;
    Bytes& taken = of_inputs && !is_last ? gradients_[after] : none_;
    Bytes made = buffer(of_inputs ? piece.inputs : 0, samples);
    const Gradients which = !of_weights  ? Gradients::OfInputs
                            : !of_inputs ? Gradients::OfWeights
                                         : Gradients::All;
    staged->backward(p, micro, which, ConstView(taken.data(), taken.size()), View(made.data(), made.size()),
                     of_weights && !makes_more(r, index), *ranks_[r].marks);
    std::fill(taken.begin(), taken.end(), std::byte{0x7f});
    if (of_inputs) gradients_[key] = made;
    if (of_weights && action.stage > 0)
      std::fill(activations_[before].begin(), activations_[before].end(), std::byte{0x7f});
    return true;
  }

  /// Every bucket is reached once, when it is complete.
  static void check_marks(const Rank& rank) {
    EXPECT_EQ(rank.marks->buckets.size(), rank.bound->binding().buckets.size());
    for (const auto& [bucket, bytes] : rank.marks->buckets)
      EXPECT_EQ(bytes, rank.marks->bytes_of(bucket))
          << "bucket " << bucket << " changed after it was complete";
  }

  program::Program program_;
  std::size_t size_;
  std::vector<Rank> ranks_;
  std::map<std::pair<int, int>, Bytes> activations_, gradients_;  // of a stage and a micro-batch
  Bytes none_;
};

/// Loss, counts, gradients, buffers and evaluation are those of the undivided model, in two steps.
inline void expect_undivided(const MakeModel& make, DType type, const std::string& schedule, int stages,
                             int micros, StepInput input, double tolerance) {
  Bound whole(make(), type, type);
  Pipeline pipeline(make, type, schedule, stages, micros);
  input.micro_batches = micros;
  for (int step = 0; step < 2; ++step) {
    Recorder ignored;
    const StepOutput expected = whole->forward_backward(input, 0, ignored);
    const StepOutput output = pipeline.step(input);
    EXPECT_NEAR(output.loss_sum, expected.loss_sum, tolerance * std::abs(expected.loss_sum));
    EXPECT_EQ(output.counts, expected.counts);
    for (const ParameterSpec& parameter : whole->spec().parameters) {
      if (!parameter.trainable) continue;
      const std::vector<double> gradient = whole.gradient(parameter.name);
      EXPECT_LE(relative_distance(pipeline.gradient(parameter.name), gradient), tolerance) << parameter.name;
    }
  }
  EXPECT_LE(relative_distance(pipeline.buffers(), whole->buffers()), tolerance);
  const StepOutput expected = whole->evaluate(input.inputs, input.labels);
  const StepOutput output = pipeline.evaluate(input);
  EXPECT_NEAR(output.loss_sum, expected.loss_sum, tolerance * std::abs(expected.loss_sum));
  EXPECT_EQ(output.counts, expected.counts);
}

}  // namespace taxon::model
