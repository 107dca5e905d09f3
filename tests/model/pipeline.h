#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/bench.h"
#include "model/division.h"
#include "model/staged.h"
#include "program/schedule.h"
#include "support/distance.h"

namespace taxon::model {

using test::relative_distance;
using MakeModel = std::function<std::unique_ptr<Model>()>;

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

/// The ranks of a pipeline, and of a tensor axis, in one process: each has a divided model with arenas, the
/// test moves what travels. What a rank gets is in memory of its own, and is spoilt as soon as it may be.
class Pipeline {
 public:
  struct Axes {
    int stages = 1, micros = 1, members = 1;
    std::map<std::string, std::string> splits = {};
    bool choose = false;
    plan::Activations activations = plan::Activations::Kept;
  };
  Pipeline(const MakeModel& make, DType type, const std::string& schedule, const Axes& axes)
      : program_(program_of(program::find_schedule(schedule), {axes.stages, axes.micros})), type_(type) {
    const std::vector<Range> cuts = cut_into(axes.stages, make()->spec());
    for (std::size_t rank = 0; rank < program_.ranks.size(); ++rank) {
      ranks_.emplace_back();
      for (int member = 0; member < axes.members; ++member) {
        Division division{.stages = cuts,
                          .members = axes.members,
                          .member = member,
                          .splits = axes.splits,
                          .choose = axes.choose,
                          .samples = 6,
                          .activations = axes.activations};
        for (int stage = 0; stage < axes.stages; ++stage)
          if (program_.rank_at(stage) == static_cast<int>(rank)) division.held.push_back(stage);
        std::unique_ptr<Model> model = make();
        Staged* staged = model->staged();
        TAXON_CHECK(staged != nullptr);
        staged->divide(division);
        ranks_.back().push_back({staged, std::make_unique<Bound>(std::move(model), type, type)});
      }
    }
  }

  StepOutput step(const StepInput& input) {
    activations_.clear();
    gradients_.clear();
    taken_.clear();
    std::vector<std::size_t> next(ranks_.size(), 0);
    for (std::vector<Rank>& members : ranks_)
      for (Rank& rank : members) {
        rank.bound->fill_gradients(7);  // of the step before
        rank.marks = std::make_unique<Marks>(*rank.bound);
        rank.staged->begin_step(input);
      }
    for (bool any = true; any;) {
      any = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r)
        for (; next[r] < program_.ranks[r].size() && run(r, next[r], input); ++next[r]) any = true;
    }
    StepOutput output;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      EXPECT_EQ(next[r], program_.ranks[r].size()) << "rank " << r << " is stuck";
      const StepOutput first = ranks_[r].front().staged->end_step();
      output += first;
      for (std::size_t m = 1; m < ranks_[r].size(); ++m) {
        const StepOutput other = ranks_[r][m].staged->end_step();
        EXPECT_EQ(other.loss_sum, first.loss_sum);
        EXPECT_EQ(other.counts, first.counts);
      }
      for (const Rank& rank : ranks_[r]) check_marks(rank);
    }
    return output;
  }

  StepOutput evaluate(const StepInput& input) {
    std::vector<Bytes> last(ranks_.front().size());
    StepOutput output;
    for (int stage = 0; stage < program_.stages; ++stage) {
      std::vector<Rank>& members = at(stage);
      for (std::size_t p : pieces_of(members, stage)) {
        for (std::size_t m = 0; m < members.size(); ++m) {
          const Piece& piece = members[m].staged->pieces()[p];
          Bytes next = buffer(piece, piece.outputs, members, m, input.samples());
          const StepOutput sums = members[m].staged->evaluate(static_cast<int>(p), input.inputs, input.labels,
                                                              as_const(last[m]), as_view(next));
          if (m == 0) output += sums;
          last[m] = std::move(next);
        }
        last = onward(members, p, input.samples(), last);
      }
    }
    return output;
  }

  /// Of the whole parameter. Summed over ranks that make a summand each, joined of members' parts; what every
  /// member has is equal.
  std::vector<double> gradient(const std::string& name) const {
    std::vector<double> sum;
    for (const std::vector<Rank>& members : ranks_) {
      std::vector<double> of_rank;
      for (std::size_t m = 0; m < members.size(); ++m) {
        const ModelSpec& spec = (*members[m].bound)->spec();
        for (const ParameterSpec& parameter : spec.parameters)
          if (parameter.name == name)
            join(of_rank, members[m].bound->gradient(name), parameter, spec, parameter.partial);
      }
      sum.resize(std::max(sum.size(), of_rank.size()), 0);
      for (std::size_t i = 0; i < of_rank.size(); ++i) sum[i] += of_rank[i];
    }
    return sum;
  }
  std::vector<double> buffers() const {
    std::vector<double> all;
    for (const std::vector<Rank>& members : ranks_) {
      std::vector<std::vector<double>> joined((*members.front().bound)->spec().buffers.size());
      for (const Rank& rank : members) {
        const ModelSpec& spec = (*rank.bound)->spec();
        const std::vector<double> values = (*rank.bound)->buffers();
        auto next = values.begin();
        for (std::size_t b = 0; b < joined.size(); ++b) {
          const auto end = next + static_cast<std::ptrdiff_t>(spec.buffers[b].count());
          join(joined[b], {next, end}, spec.buffers[b], spec, false);
          next = end;
        }
      }
      for (const auto& values : joined) all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
  std::vector<std::vector<std::byte>> random_states() const {
    std::vector<std::vector<std::byte>> states;
    for (const std::vector<Rank>& members : ranks_)
      for (const Rank& rank : members) states.push_back((*rank.bound)->random_state());
    return states;
  }
  Bound& rank(int index) { return *ranks_[static_cast<std::size_t>(index)].front().bound; }
  Staged& staged(int index) { return *ranks_[static_cast<std::size_t>(index)].front().staged; }

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

  static ConstView as_const(const Bytes& bytes) { return {bytes.data(), bytes.size()}; }
  static View as_view(Bytes& bytes) { return {bytes.data(), bytes.size()}; }
  static void spoil(Bytes& bytes) { std::fill(bytes.begin(), bytes.end(), std::byte{0x7f}); }
  Bytes buffer(const Piece& piece, std::int64_t elements, const std::vector<Rank>& members, std::size_t m,
               std::size_t samples) const {
    const Range own = piece.own({0, samples}, static_cast<int>(members.size()), static_cast<int>(m));
    return Bytes(static_cast<std::size_t>(elements) * own.size * size_of(type_), std::byte{0x7f});
  }
  /// What the next piece takes, and from its inputs' gradients this one.
  std::vector<Bytes> onward(const std::vector<Rank>& members, std::size_t p, std::size_t samples,
                            const std::vector<Bytes>& from) const {
    const std::vector<Piece>& pieces = members.front().staged->pieces();
    if (pieces[p].forward == parallel::Movement::None) return from;
    return moved(pieces[p].forward, {pieces[p].by_samples, pieces[p + 1].by_samples, samples}, from);
  }
  std::vector<Bytes> back(const std::vector<Rank>& members, std::size_t p, std::size_t samples,
                          const std::vector<Bytes>& from) const {
    const std::vector<Piece>& pieces = members.front().staged->pieces();
    return moved(pieces[p - 1].backward, {pieces[p].by_samples, pieces[p - 1].by_samples, samples}, from);
  }
  template <class Described>
  static void join(std::vector<double>& whole, const std::vector<double>& part, const Described& described,
                   const ModelSpec& spec, bool sums) {
    const bool is_split = described.split >= 0;
    const bool is_first = whole.empty();
    whole.resize(part.size() * static_cast<std::size_t>(is_split ? spec.members : 1), 0);
    if (!is_split && !sums && !is_first) {
      EXPECT_EQ(part, whole) << described.name;
    }
    auto next = part.begin();
    for (Range range :
         part_of_whole(described.shape, described.split, described.blocks, spec.members, spec.member))
      for (std::size_t i = range.begin; i < range.end(); ++i, ++next)
        whole[i] = *next + (sums && !is_first ? whole[i] : 0);
  }
  /// By plain loops.
  struct Sides {
    bool from_samples, to_samples;
    std::size_t samples;
  };
  std::vector<Bytes> moved(parallel::Movement movement, Sides sides, const std::vector<Bytes>& from) const {
    using parallel::Movement;
    if (movement == Movement::None) return from;
    // The part of one member, of samples or of features.
    const auto part_of = [&](const Bytes& bytes, std::size_t m, bool of_samples) {
      const std::size_t units = of_samples ? sides.samples : from.size();
      const std::size_t each = bytes.size() / std::max<std::size_t>(units, 1);
      const Range range = of_samples ? part({0, units}, from.size(), m) : Range{m, 1};
      const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(range.begin * each);
      return Bytes(begin, begin + static_cast<std::ptrdiff_t>(range.size * each));
    };
    if (movement == Movement::AllToAll) {
      std::vector<Bytes> to(from.size());
      for (std::size_t m = 0; m < from.size(); ++m)
        for (const Bytes& source : from) {
          const Bytes one = part_of(source, m, sides.to_samples);
          to[m].insert(to[m].end(), one.begin(), one.end());
        }
      return to;
    }
    const std::size_t members = from.size();
    Bytes all = from.front();
    if (movement == Movement::AllReduce || movement == Movement::ReduceScatter)
      dispatch(type_, [&](auto zero) {
        using T = decltype(zero);
        using Wide = std::conditional_t<std::is_same_v<T, BFloat16>, float, T>;
        T* const sums = reinterpret_cast<T*>(all.data());
        for (std::size_t m = 1; m < members; ++m)
          for (std::size_t i = 0; i < all.size() / sizeof(T); ++i)
            sums[i] = static_cast<T>(static_cast<Wide>(sums[i]) +
                                     static_cast<Wide>(reinterpret_cast<const T*>(from[m].data())[i]));
      });
    if (movement == Movement::AllGather)
      for (std::size_t m = 1; m < members; ++m) all.insert(all.end(), from[m].begin(), from[m].end());
    std::vector<Bytes> to(members, all);
    if (movement == Movement::Slice || movement == Movement::ReduceScatter)
      for (std::size_t m = 0; m < members; ++m)
        to[m] = part_of(movement == Movement::Slice ? from[m] : all, m, sides.to_samples);
    return to;
  }
  std::vector<Rank>& at(int stage) { return ranks_[static_cast<std::size_t>(program_.rank_at(stage))]; }
  static std::vector<std::size_t> pieces_of(const std::vector<Rank>& members, int stage) {
    std::vector<std::size_t> list;
    const std::vector<Piece>& pieces = members.front().staged->pieces();
    for (std::size_t p = 0; p < pieces.size(); ++p)
      if (pieces[p].stage == stage) list.push_back(p);
    if (list.empty()) throw std::logic_error("a stage that its rank has not");
    return list;
  }
  /// Of a step's first micro-batch as training has it: segment by segment, when the weights of those behind
  /// are not there yet.
  static void forward(const Rank& rank, std::size_t p, const MicroBatch& micro, ConstView input,
                      View output) {
    const Range segments = rank.staged->pieces()[p].segments;
    const ModelSpec& spec = (*rank.bound)->spec();
    const Binding& binding = rank.bound->binding();
    for (std::size_t until = segments.begin + 1; micro.index == 0 && until < segments.end(); ++until) {
      std::vector<std::pair<View, Bytes>> spoilt;
      for (std::size_t slot = 0; slot < binding.parameters.size(); ++slot) {
        const auto segment = static_cast<std::size_t>(spec.segment_of(binding.parameters[slot]));
        if (segment < until || segment >= segments.end()) continue;
        const View weights = binding.weights->bytes(binding.weight(slot));
        spoilt.emplace_back(weights, Bytes(weights.data(), weights.data() + weights.size()));
        std::fill_n(weights.data(), weights.size(), std::byte{0x7f});
      }
      rank.staged->begin_forward(static_cast<int>(p), micro, input, until);
      for (const auto& [weights, values] : spoilt) std::copy(values.begin(), values.end(), weights.data());
    }
    rank.staged->forward(static_cast<int>(p), micro, input, output);
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
    std::vector<Rank>& members = ranks_[r];
    const std::vector<std::size_t> pieces = pieces_of(members, action.stage);
    const std::size_t samples = micro.samples().size;
    const std::pair before{action.stage - 1, action.micro}, after{action.stage + 1, action.micro};
    const std::vector<Bytes> none(members.size());
    if (action.kind == program::ActionKind::Forward) {
      if (action.stage > 0 && !activations_.contains(before)) return false;
      std::vector<Bytes> travels = action.stage > 0 ? std::exchange(activations_[before], none) : none;
      for (std::size_t p : pieces) {
        std::vector<Bytes>& taken = taken_[{p, r, action.micro}] = std::move(travels);
        travels.clear();
        for (std::size_t m = 0; m < members.size(); ++m) {
          const Piece& piece = members[m].staged->pieces()[p];
          travels.push_back(buffer(piece, piece.outputs, members, m, samples));
          forward(members[m], p, micro, as_const(taken[m]), as_view(travels[m]));
        }
        travels = onward(members, p, samples, travels);
      }
      activations_[key] = travels;
      return true;
    }
    const bool of_inputs = program::makes_input_gradient(action.kind);
    const bool of_weights = program::makes_weight_gradient(action.kind);
    const bool is_last = program_.is_last(action.stage);
    if (of_inputs && !is_last && !gradients_.contains(after)) return false;
    std::vector<Bytes> travels = of_inputs && !is_last ? std::exchange(gradients_[after], none) : none;
    const Gradients which = !of_weights  ? Gradients::OfInputs
                            : !of_inputs ? Gradients::OfWeights
                                         : Gradients::All;
    for (auto p = pieces.rbegin(); p != pieces.rend(); ++p) {
      std::vector<Bytes> made;
      for (std::size_t m = 0; m < members.size(); ++m) {
        const Piece& piece = members[m].staged->pieces()[*p];
        made.push_back(buffer(piece, of_inputs ? piece.inputs : 0, members, m, samples));
        members[m].staged->backward(static_cast<int>(*p), micro, which, as_const(travels[m]),
                                    as_view(made[m]), of_weights && !makes_more(r, index), *members[m].marks);
        spoil(travels[m]);
        if (of_weights) spoil(taken_[{*p, r, action.micro}][m]);
      }
      travels = std::move(made);
      if (of_inputs && p + 1 != pieces.rend()) travels = back(members, *p, samples, travels);
    }
    if (of_inputs) gradients_[key] = travels;
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
  DType type_;
  std::vector<std::vector<Rank>> ranks_;  // of the pipeline, and each one's members
  // By member: of a stage and a micro-batch, and what a piece of a rank took of one.
  std::map<std::pair<int, int>, std::vector<Bytes>> activations_, gradients_;
  std::map<std::tuple<std::size_t, std::size_t, int>, std::vector<Bytes>> taken_;
};

/// Loss, counts, gradients, buffers and evaluation are those of the undivided model, in two steps.
inline void expect_undivided(const MakeModel& make, DType type, const std::string& schedule,
                             const Pipeline::Axes& axes, StepInput input, double tolerance) {
  Bound whole(make(), type, type);
  Pipeline pipeline(make, type, schedule, axes);
  input.micro_batches = axes.micros;
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

/// Activations that are computed again give the bits of those that are kept, and leave the same behind, in
/// two steps.
inline void expect_same_bits_of_recomputed(const MakeModel& make, DType type, const std::string& schedule,
                                           Pipeline::Axes axes, const StepInput& input) {
  const std::unique_ptr<Model> whole = make();
  Pipeline kept(make, type, schedule, axes);
  axes.activations = plan::Activations::Recomputed;
  Pipeline recomputed(make, type, schedule, axes);
  for (int step = 0; step < 2; ++step) {
    const StepOutput expected = kept.step(input), output = recomputed.step(input);
    EXPECT_EQ(output.loss_sum, expected.loss_sum);
    EXPECT_EQ(output.counts, expected.counts);
    for (const ParameterSpec& parameter : whole->spec().parameters)
      if (parameter.trainable) {
        EXPECT_EQ(recomputed.gradient(parameter.name), kept.gradient(parameter.name)) << parameter.name;
      }
    EXPECT_EQ(recomputed.buffers(), kept.buffers());
    EXPECT_EQ(recomputed.random_states(), kept.random_states());
  }
}

}  // namespace taxon::model
