#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "model/progress.h"
#include "model/torch/analyser.h"

namespace taxon::model {

class GradientSink;

/// Where one parameter's gradient of a step ends. A layer that can write it there itself saves a copy.
struct GradientTarget {
  GradientSink* sink = nullptr;
  at::Tensor slot;                 // view of the step's gradient arena; undefined before the first step
  Range range;                     // of the slot, elements of the weights
  int segment = 0;                 // that the parameter is in
  bool filled = false;             // the slot holds what earlier micro-batches of this step gave: add to it
  bool last = false;               // the next pass over it is the step's last
  bool direct = false;             // a layer may write (or add) into the slot; set while a step runs
  bool exclusive = false;          // nothing but direct layers contributes to the pass
  int uses = 0;                    // direct layers of this step's graph that will still write
  std::size_t final_elements = 0;  // from the slot's beginning: known to be complete
  /// Defined: a layer leaves its factors there, a row for each sample, and the slot alone; see FactorSlot.
  at::Tensor outputs, inputs;
  std::int64_t rows = 0;  // filled, of this step's samples
  /// Ends of the row blocks in which a layer takes its weight; fewer than two: it takes it whole. And what it
  /// made of the first of them before its pass: outputs [samples, rows of the weight], of which so many are
  /// there.
  std::vector<std::int64_t> row_ends;
  at::Tensor begun;
  std::int64_t begun_rows = 0;
  bool leaves_factors() const { return outputs.defined(); }
};

/// Takes gradients out of autograd as the backward pass completes them. A hook before each parameter's
/// accumulator gets the tensor that autograd has just computed, and autograd is left without it. If the
/// analyser had it born in the slot there is nothing to do; otherwise the values move into the slot (one
/// pass, which also converts the type). One compute thread: hooks run on the thread that calls backward().
class GradientSink {
 public:
  /// `parameters`: the trainable ones, and the segment that each is in. They must not change their type from
  /// now on.
  GradientSink(std::vector<at::Tensor> parameters, const std::vector<int>& segments);
  ~GradientSink();
  GradientSink(const GradientSink&) = delete;

  /// Stable for the sink's life; `parameter` is an index into the constructor's list.
  GradientTarget& target(int parameter) { return targets_[static_cast<std::size_t>(parameter)]; }

  /// `parameter_of_slot[slot]`: index into the constructor's list. Every parameter must have a slot, which
  /// lies as the parameter does by now.
  void bind(const Binding& binding, const std::vector<int>& parameter_of_slot);
  /// The arenas may die afterwards.
  void unbind();
  bool bound() const { return !slots_.empty(); }
  /// Binding::pieces_are_awaited.
  bool pieces_are_awaited() const { return pieces_are_awaited_; }
  /// Otherwise gradients go where the framework puts them.
  bool takes() const { return bound() || recording_; }
  /// Whether the pass that runs on this thread accumulates gradients of parameters, as backward() does;
  /// torch::autograd::grad() only hands out what it computes.
  bool pass_reaches_parameters() const;

  /// From here to stop_recording() hooks only note in which order gradients come.
  void start_recording();
  std::vector<int> stop_recording();

  /// One step: begin; deliver_to; per micro-batch begin_micro_batch and backward(); end. Forward passes
  /// may run from begin on. Buckets are reached as soon as they are complete in the last micro-batch, the
  /// rest in end_step(), which zeroes slots that got nothing. `arena`: index into Binding::gradients.
  void begin_step(std::size_t arena);
  void deliver_to(tensor::Milestones& marks) { marks_ = &marks; }
  /// From now on each gradient that comes waits in `await` first, on the thread that computes it: until
  /// deliver_to() was called for its step, or nobody takes it.
  void wait_with(std::function<void()> await) { await_ = std::move(await); }
  /// From now on each layer that takes a weight in blocks of rows has `reader` call `read`, which takes the
  /// one that ends with `rows`.
  using RowReader =
      std::function<void(const GradientTarget& target, std::int64_t rows, const std::function<void()>& read)>;
  void read_rows_with(RowReader reader) { row_reader_ = std::move(reader); }
  void read_rows(const GradientTarget& target, std::int64_t rows, const std::function<void()>& read) const {
    row_reader_ ? row_reader_(target, rows, read) : read();
  }
  /// What the step has given so far is used up: later passes of it, of which some may have gone forward,
  /// write over it. REQUIRES: all parameters have ended.
  void begin_again();
  void begin_micro_batch(bool last) {
    for (GradientTarget& target : targets_) target.last = last;
  }
  void backward(const at::Tensor& loss);
  /// The same around a backward pass that somebody else runs on this thread: before its first node, which is
  /// `root`, hands anything on, and when it is over.
  void begin_pass(torch::autograd::Node* root);
  void end_pass();
  /// Of a piece of the graph: from the gradient of its outputs, undefined for a loss, to those of its inputs,
  /// which are leaves. Undefined: they have none.
  std::vector<at::Tensor> backward(const at::Tensor& outputs, const at::Tensor& gradient,
                                   const std::vector<at::Tensor>& inputs);
  /// Of a piece of the graph whose inputs' gradient is made apart: gradients of these weights alone.
  void backward_of_weights(const at::Tensor& outputs, const at::Tensor& gradient,
                           const std::vector<at::Tensor>& weights);
  /// In place of begin_micro_batch(), where passes over parts of a graph come in any order: the next one is
  /// the last that adds to this parameter; and it is over.
  void expect_last(int parameter) { targets_[static_cast<std::size_t>(parameter)].last = true; }
  void end_parameter(int parameter);
  /// All parameters of the step have ended: marks the buckets that have no elements.
  void end_parameters() { progress_.finish(*marks_); }
  /// The gradients of the segments from this one on are final: those that got nothing are zeroed.
  void end_segments(int from);
  void end_step();
  /// A step that failed: the next one starts afresh.
  void abandon_step();

  /// For direct layers: the slot's values up to element `end` are written, from the beginning on. Counts when
  /// they are final: nothing else contributes, and this is the layer's last use in the step.
  void written(GradientTarget& target, std::size_t end);

  /// For layers that leave factors: those of the next samples of the step.
  void append_factors(GradientTarget& target, const at::Tensor& outputs, const at::Tensor& inputs);

  CopyCount copies() const { return copies_; }
  /// By slot; names are the caller's.
  std::vector<GradientTransfer> crossings() const;

 private:
  friend class GradientArrives;
  struct Accumulator;
  /// What had to wait until no tensor holds its slot.
  struct Late {
    std::size_t parameter;
    at::Tensor gradient;
  };
  void offer_slots();
  void find_exclusive(torch::autograd::Node* root);
  [[noreturn]] static void refuse_more();
  void arrived(std::size_t parameter, const at::Tensor& gradient);
  void keep(std::size_t parameter, const at::Tensor& gradient);
  void store(std::size_t parameter, const at::Tensor& gradient);
  void store_late();
  void note_sizes();
  void count(std::size_t parameter, std::int64_t bytes, std::string_view why);
  void complete(GradientTarget& target, std::size_t end);
  void end_target(GradientTarget& target);
  static void end_factors(GradientTarget& target);
  void bind_factors(const Binding& binding, const std::vector<int>& parameter_of_slot);

  std::vector<at::Tensor> parameters_;
  std::vector<GradientTarget> targets_;
  std::vector<std::vector<at::Tensor>> slots_;  // [arena][parameter]; empty while unbound
  struct FactorViews {
    std::size_t parameter;
    std::vector<at::Tensor> outputs, inputs;  // [arena]
  };
  std::vector<FactorViews> factors_;
  std::vector<Accumulator> accumulators_;
  std::unique_ptr<Analyser> analyser_;
  Binding::Births births_ = Binding::Births::Placed;
  bool pieces_are_awaited_ = true;
  std::vector<int> parameter_of_slot_;
  std::optional<Analyser::Pass> pass_;  // that runs
  std::vector<Late> late_;
  std::vector<GradientTransfer> crossings_;  // by parameter
  std::int64_t steps_ = 0;                   // since bind()
  Progress progress_;
  tensor::Milestones* marks_ = nullptr;  // while backward passes run
  std::function<void()> await_;
  RowReader row_reader_;
  bool recording_ = false;
  std::vector<int> order_;
  CopyCount copies_;
};

}  // namespace taxon::model
