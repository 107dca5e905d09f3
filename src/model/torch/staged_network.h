#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "model/staged.h"
#include "model/torch/bound_network.h"

namespace taxon::model {

/// A network of the framework in stages, and its layers over members (Network::split). Graphs are cut between
/// segments, which are the network's stages or their steps, so that the gradients of inputs and of weights
/// are made apart with little computed twice. Activations lie in their buffers as the network's layers leave
/// them: channels last where these do.
class StagedNetwork final : public Staged {
 public:
  /// `net` outlives it, and is changed by divide().
  explicit StagedNetwork(BoundNetwork& net) : net_(net) {}

  void divide(const Division& division) override;
  bool divided() const { return !pieces_.empty(); }
  const std::vector<Piece>& pieces() const override { return pieces_; }
  std::string account() const override { return account_; }
  void begin_step(const StepInput& input) override;
  void use_weights(std::size_t version) override { net_.tensors->use(version); }
  void begin_forward(int piece, const MicroBatch& micro, ConstView input, std::size_t until) override;
  void forward(int piece, const MicroBatch& micro, ConstView input, View output) override;
  void backward(int piece, const MicroBatch& micro, Gradients which, ConstView output_gradient,
                View input_gradient, bool last, tensor::Milestones& marks) override;
  StepOutput end_step() override;
  void abandon_step() override;
  StepOutput evaluate(int piece, data::Inputs inputs, data::Values labels, ConstView input,
                      View output) override;

 private:
  /// A segment's part of a graph.
  struct Link {
    at::Tensor inputs;    // a leaf: its gradient is what the segment before goes on with
    at::Tensor entering;  // the same of what the first step of its stage took, where it reads that
    at::Tensor outputs;   // of the last segment: logits
    at::Tensor gradient;  // of the outputs, from Gradients::OfInputs to OfWeights
    at::Tensor aside;     // of the inputs: what a later step of the stage gave
  };
  /// Of one micro-batch's pass through a piece.
  struct Graph {
    std::vector<Link> links;  // of its segments, as far as it has come
    at::Tensor reached;       // what left the last of these, until the piece is passed
    at::Tensor seen, loss;    // of the last piece: the logits as a leaf, and what follows from them
    ConstView input;
    bool passed = false;
    /// What the forward pass began to draw from, where activations are computed again, until they are.
    std::optional<RandomStream> drawn;
  };
  /// A segment of the network, on this member.
  struct Step {
    int stage = 0, step = 0;  // of the network
    bool reads_entering = false, is_entering = false;
    bool summarises = false;  // it leaves what a loss needs of the logits of some classes, in place of these
    /// Whether this member's gradient of the inputs has what a later step gave: else another member's has.
    bool adds_aside = true;
  };
  /// Of a held segment.
  struct Part : Step {
    std::vector<int> trained;         // that it reads, as the sink counts them
    std::vector<at::Tensor> weights;  // the same
  };
  /// A piece's end: how its numbers lie.
  struct Edge {
    SampleLayout layout;
    bool by_member = false;  // one member's features of all samples after the other's
  };
  struct Ends {
    Edge input, output;
  };
  /// The whole network as this member has it, before it lets go of stages.
  struct Whole {
    ModelSpec spec;
    Division division;                            // in its segments
    std::vector<Step> steps;                      // its segments
    std::vector<std::vector<int>> borrowed;       // of each, beside its own
    std::vector<const parallel::SplitRow*> rows;  // of each; empty: one member
    std::vector<SampleLayout> outputs;            // of each, the last one's logits
  };

  void check(const Division& division) const;
  Whole in_stages(const Division& division) const;
  Whole in_steps(const Division& division);
  void hold(Whole whole, const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers);
  void find_ends(const Whole& whole, const std::vector<int>& segments);
  void probe(Whole& whole) const;
  bool is_last(const Piece& piece) const { return piece.outputs == 0; }
  at::Tensor read(const Edge& edge, ConstView memory, std::size_t samples) const;
  void write(const at::Tensor& values, const Edge& edge, View memory, std::size_t samples) const;
  /// The samples of a piece that this member has.
  Range own(int piece, Range samples) const;
  at::Tensor input_of(std::size_t piece, data::Inputs inputs, ConstView input, Range samples) const;
  /// Of a segment that reads what its stage took; null: of others.
  Link* link_that_took(std::size_t part, int micro);
  at::Tensor run(const Part& part, at::Tensor inputs, const at::Tensor& entering, const data::Values& labels,
                 Range samples);
  Loss loss(const at::Tensor& given, const data::Values& labels, Range samples) const;
  /// The graph of a micro-batch's pass through a piece, which begins with the first call for it.
  Graph& graph_of(int piece, const MicroBatch& micro, ConstView input);
  /// Through the piece's segments before `until`, as far as the graph has not come, which it fills in.
  void advance(std::size_t piece, const MicroBatch& micro, Graph& graph, std::size_t until);
  /// Through the rest of a piece. Of the last one the loss.
  at::Tensor run(std::size_t piece, const MicroBatch& micro, Graph& graph, Loss& loss);
  /// Leaves of a forward pass what it can't be computed again without.
  void let_go(std::size_t piece, Graph& graph) const;
  void compute_again(int stage, const MicroBatch& micro);
  void begin_gradients();
  /// The gradient of what the piece gave.
  at::Tensor begin_backward(std::size_t piece, Graph& graph, Gradients which, ConstView given,
                            std::size_t samples) const;
  at::Tensor pass(std::size_t part, Link& link, Gradients which, int micro);
  /// The last pass over a segment is about to come, and is over.
  void expect_last(const Part& part);
  void end(const Part& part);

  BoundNetwork& net_;
  std::vector<Piece> pieces_;
  std::vector<Ends> ends_;  // of the pieces
  std::vector<Part> parts_;
  int members_ = 1;
  bool by_classes_ = false;  // NetworkSplit's
  plan::Activations activations_ = plan::Activations::Kept;
  std::string account_;
  std::map<std::pair<int, int>, Graph> graphs_;  // by piece and micro-batch
  std::vector<int> left_;  // by trained parameter: segments whose last pass over its gradient is to come
  int pieces_left_ = 0;    // whose last pass over the gradients is
  StepOutput output_;
  at::Tensor entering_;  // of an evaluation
};

}  // namespace taxon::model
