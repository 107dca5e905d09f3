#pragma once

#include <map>
#include <span>
#include <string>

#include "model/model.h"
#include "parallel/layer_kind.h"
#include "parallel/placement.h"
#include "parallel/split.h"

namespace taxon::model {

/// How a model is divided over processes that hold parts of it: its segments over the stages of a pipeline,
/// its layers over the members of the tensor axis.
struct Division {
  std::vector<Range> stages;  // segments of each stage of the whole model, ascending; together all of them
  std::vector<int> held;      // stages that this process has, ascending
  int members = 1;            // of the tensor axis
  int member = 0;             // that this process is
  /// Rows of parallel/split.h for layers by name, in place of the network's own choice.
  std::map<std::string, std::string> splits;
  /// Of the program's own, found before the tables'.
  std::span<const parallel::SplitRow> own_splits;
  std::span<const parallel::LayerKind> own_kinds;
  /// Layers not named there are split so that a member sends least (parallel/split_choice.h), for steps of so
  /// many samples of a replica. Otherwise the network has a rule of its own.
  bool choose = false;
  int replicas = 1;
  std::int64_t samples = 1;
  bool in_strips = true;  // parallel::SplitChoiceInput's
  /// What forward passes leave for backward passes: all that these read, or the pieces' inputs alone, from
  /// which the first backward pass of a stage computes the rest again.
  plan::Activations activations = plan::Activations::Kept;
  /// Each segment is a piece of its own, for parameters that are there only while they are used.
  bool segments_apart = false;
};

/// What a process computes between two transfers: consecutive segments of one stage. Where members must move
/// something inside a segment of the whole model, the divided model's spec has several in its place, so that
/// pieces are always of whole segments, each of which is in one piece. A piece without segments hands on what
/// it takes (first of a stage: what the stage before left must be moved), or is the loss alone.
struct Piece {
  int stage = 0;
  Range segments;            // indices into the segments of the divided model's spec
  std::int64_t inputs = 0;   // elements of a sample that it takes from a buffer; 0: the data set's samples
  std::int64_t outputs = 0;  // that it leaves in one; 0: it ends in the loss
  /// A member takes and leaves its part of a micro-batch's samples alone; otherwise each has all of them.
  bool by_samples = false;
  /// What lies between this piece and the next of its stage, over the tensor axis: of its outputs, and of the
  /// gradients of the next one's inputs. The last piece of a stage has none: what leaves a stage may be a
  /// member's part or summand, and goes to the same member of the next stage, whose first piece has a
  /// movement then. AllReduce adds members' buffers element by element; AllGather leaves them one after the
  /// other, in the order of the members; Slice takes a member's of so many equally long parts of its own
  /// buffer; ReduceScatter adds, and takes that part. Pieces lay their numbers out so. Where one of the two
  /// is by samples, what is gathered, sliced or scattered are samples, in their order and not always equally
  /// many; AllToAll then leads from a member's samples, of which one member's features lie after the other's,
  /// to its features of all samples, or back.
  parallel::Movement forward = parallel::Movement::None;
  parallel::Movement backward = parallel::Movement::None;

  Range own(Range samples, int members, int member) const {
    if (!by_samples) return samples;
    return part(samples, static_cast<std::size_t>(members), static_cast<std::size_t>(member));
  }
};

/// What a movement does to the features of a sample that a member has.
enum class FeatureChange { None, Gathered, Parted };
FeatureChange feature_change(parallel::Movement movement, bool from_samples, bool to_samples);

/// A part of a worker's share: a sample is in exactly one. Micro-batch i has part(share, count, i) of it,
/// which is empty where there are more micro-batches than samples.
struct MicroBatch {
  const StepInput* step = nullptr;
  int index = 0;
  int count = 1;
  Range samples() const {
    return part({0, step->samples()}, static_cast<std::size_t>(count), static_cast<std::size_t>(index));
  }
};

/// Which gradients a backward pass makes. OfWeights comes after OfInputs of the same piece and micro-batch.
enum class Gradients { All, OfInputs, OfWeights };

/// A model whose passes somebody else arranges: piece by piece, micro-batch by micro-batch, in the order of a
/// program (src/program). Several micro-batches may be between their passes at once. A micro-batch passes the
/// pieces of a stage one after the other, backwards in backward passes, of inputs and of weights too: they
/// may share what they keep. As Model's: blocking calls from the compute thread.
class Staged {
 public:
  virtual ~Staged() = default;

  /// Once, before bind(). Members have parts of layers where the network knows how (docs/decisions/0013), and
  /// all of the others, whose gradients are then equal on every member. Afterwards spec(), parameters() and
  /// buffers() have what this process holds alone, and the memory of the rest is free; Model's passes and its
  /// gradient_order() by samples are gone: the order is that of the spec, backwards. Throws Error{Usage} that
  /// says all that can't be divided so.
  virtual void divide(const Division& division) = 0;
  /// Of the held stages, stage by stage, in forward order. REQUIRES: divided.
  virtual const std::vector<Piece>& pieces() const = 0;
  /// Why layers are split as they are, where that was chosen (Division::choose); otherwise empty.
  virtual std::string account() const { return {}; }

  /// Zeroes what a step adds up; its gradients go to input.gradients of the binding.
  virtual void begin_step(const StepInput& input) = 0;
  /// Passes from now on, of evaluations too, compute with what Binding::versions[version] has now, or the
  /// weights where there is one version. What a micro-batch's forward pass used stays as it is, and is used
  /// by its backward passes. Where updates are those of flushes this is never called.
  virtual void use_weights(std::size_t version) = 0;
  /// A part of what forward() does, which goes on from there: the pass through the piece's segments before
  /// `until`, whose weights alone it reads, so that those of the others may still change. May come several
  /// times with growing `until`, and the same arguments as forward(). One that does nothing is right too.
  virtual void begin_forward(int /*piece*/, const MicroBatch& /*micro*/, ConstView /*input*/,
                             std::size_t /*until*/) {}
  /// In training mode. `input`: samples x inputs elements of the compute type, which stay as they are until
  /// the gradients of weights of this piece and micro-batch are made; empty for the first piece. `output`:
  /// written; empty for the last, which takes the labels and counts. Micro-batches without samples do
  /// nothing, here and below.
  virtual void forward(int piece, const MicroBatch& micro, ConstView input, View output) = 0;
  /// From the gradient of the outputs (empty for the last piece) to that of the inputs (empty for the first),
  /// and to those of weights, which are added to what earlier micro-batches of the step gave. `last`: no pass
  /// adds to these gradients of this piece's weights any more; buckets whose tensors are complete by that are
  /// reached. Once all pieces have had that, the next pass begins new gradients in the place of these.
  virtual void backward(int piece, const MicroBatch& micro, Gradients which, ConstView output_gradient,
                        View input_gradient, bool last, tensor::Milestones& marks) = 0;
  /// All passes are over: slots that got nothing are zeroed. Sums over labels, at the last stage, where
  /// every member has those of all.
  virtual StepOutput end_step() = 0;
  /// They will not be: what they kept is let go.
  virtual void abandon_step() = 0;

  /// Forward in evaluation mode; a batch passes the pieces of a stage before another one does, and nothing is
  /// kept longer. The output is the last piece's. `labels` say how many samples
  /// there are at every piece, as in steps; `inputs` are the first one's alone.
  virtual StepOutput evaluate(int piece, data::Inputs inputs, data::Values labels, ConstView input,
                              View output) = 0;
};

}  // namespace taxon::model
