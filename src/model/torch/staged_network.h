#pragma once

#include <map>
#include <utility>
#include <vector>

#include "model/staged.h"
#include "model/torch/bound_network.h"

namespace taxon::model {

/// A network of the framework in stages, each of which is a piece. Graphs are cut between segments, so that
/// the gradients of inputs and of weights are made apart with little computed twice. Activations lie in their
/// buffers as the network's layers leave them: channels last where these do.
class StagedNetwork final : public Staged {
 public:
  /// `net` outlives it, and is changed by divide().
  explicit StagedNetwork(BoundNetwork& net) : net_(net) {}

  void divide(const Division& division) override;
  bool divided() const { return !pieces_.empty(); }
  const std::vector<Piece>& pieces() const override { return pieces_; }
  void begin_step(const StepInput& input) override;
  void forward(int piece, const MicroBatch& micro, ConstView input, View output) override;
  void backward(int piece, const MicroBatch& micro, Gradients which, ConstView output_gradient,
                View input_gradient, bool last, tensor::Milestones& marks) override;
  StepOutput end_step() override;
  void abandon_step() override;
  StepOutput evaluate(int piece, data::Inputs inputs, std::span<const std::int64_t> labels, ConstView input,
                      View output) override;

 private:
  /// A segment's part of a graph.
  struct Link {
    at::Tensor inputs;    // a leaf: its gradient is what the segment before goes on with
    at::Tensor outputs;   // of the last segment: logits
    at::Tensor gradient;  // of the outputs, from Gradients::OfInputs to OfWeights
  };
  /// Of one micro-batch's pass through a piece.
  struct Graph {
    std::vector<Link> links;  // of its segments
    at::Tensor seen, loss;    // of the last piece: the logits as a leaf, and what follows from them
  };
  /// Of a held segment.
  struct Part {
    int stage = 0;                    // of the network
    std::vector<int> trained;         // that it reads, as the sink counts them
    std::vector<at::Tensor> weights;  // the same
  };

  void check(const Division& division) const;
  void hold(const Division& division, const ModelSpec& whole);
  bool is_last(const Piece& piece) const { return piece.outputs == 0; }
  const SampleLayout& input_layout(const Piece& piece) const;
  const SampleLayout& output_layout(const Piece& piece) const;
  static at::Tensor viewed(const SampleLayout& layout, ConstView memory, std::size_t samples);
  at::Tensor input_of(const Piece& piece, data::Inputs inputs, ConstView input, Range samples) const;
  /// Finds the gradient of what the last segment gave.
  void begin_backward(const Piece& piece, Graph& graph, Gradients which, ConstView given,
                      std::size_t samples) const;
  at::Tensor pass(Link& link, const Part& part, Gradients which);
  /// The last pass over a segment is about to come, and is over.
  void expect_last(const Part& part);
  void end(const Part& part);

  BoundNetwork& net_;
  std::vector<Piece> pieces_;
  std::vector<Part> parts_;
  std::map<std::pair<int, int>, Graph> graphs_;  // by piece and micro-batch
  std::vector<int> left_;  // by trained parameter: segments whose last pass in the step is to come
  int pieces_left_ = 0;    // whose last pass is
  StepOutput output_;
};

}  // namespace taxon::model
