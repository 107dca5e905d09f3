#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/sample_shape.h"
#include "model/task.h"
#include "plan/plan.h"
#include "tensor/arena.h"
#include "tensor/device.h"

namespace taxon::model {

struct ParameterSpec {
  std::string name;  // as in the framework: "conv1.weight"
  std::vector<std::int64_t> shape;
  bool trainable = true;
  /// The weight, [outputs, inputs], of a linear layer that sees each sample of a share once: its gradient has
  /// sufficient factors, see FactorSlot.
  bool linear = false;
  /// Of four dimensions, of which the second lies innermost wherever a Binding has it (its weights,
  /// gradients): as the layer reads it where activations lie so. Its values elsewhere are in the order of the
  /// shape.
  bool channels_last = false;
  // Of a model that is divided (model/staged.h); shape is then that of the part.
  int split = -1;  // the dimension of which each member of the tensor axis has its part; -1: all have all
  int blocks = 1;  // of that dimension, equally long, of each of which a member has its part
  bool partial = false;          // each member of the tensor axis makes a summand of its gradient
  std::vector<int> stages = {};  // that use it, where these are several: each makes a summand of its gradient
  std::int64_t count() const;
};

/// State that is not trained by gradients, such as batch-norm statistics.
struct BufferSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  int segment = -1;  // that it is in; -1: the one whose name its own begins with, or else the first
  int split = -1;    // as a parameter's
  int blocks = 1;
  bool persistent = true;       // false: PyTorch's state_dict() has it not, and neither has a weights file
  DType type = DType::Float32;  // of a weights file, which has all of its values
  bool is_flags = false;        // of UInt8, and each 0 or 1
  std::size_t count() const;
};

/// A consecutive part of the forward pass: it reads its own parameters and, of others, only those of earlier
/// segments. What forward waits for and what a profile has a cost for.
struct Segment {
  std::string name;
  std::vector<int> parameters;  // indices into ModelSpec::parameters
  double forward_flops = 0;     // per sample; 0: unknown
  double backward_flops = 0;    // per sample; 0: twice the forward pass's
  double forward_seconds = 0;   // per sample, measured; these take the place of the figures above
  double backward_seconds = 0;
  std::int64_t outputs = 0;  // elements of a sample that go on to the next segment; 0: unknown, or the loss
  std::vector<int> borrowed = {};  // of a model that is divided: parameters of others that it reads
  /// Of a linear layer and what follows from it: its weight, [outputs, inputs], with whose first rows the
  /// forward pass can begin. -1: it is none.
  int weight_by_rows = -1;
};

/// When a parameter's gradient is complete, as shares of the backward pass's time: its first elements from
/// `begin` on, then one after the other, all of them at `end`.
struct GradientTime {
  double begin = 1;
  double end = 1;
};

struct ModelSpec {
  std::string name;
  std::vector<ParameterSpec> parameters;  // shared ones once
  std::vector<BufferSpec> buffers;
  std::vector<Segment> segments;             // in forward order; every parameter is in exactly one
  std::vector<GradientTime> gradient_times;  // of each parameter; empty: when its segment's backward ends
  std::int64_t parameter_count() const;
  /// The segment that a parameter is in.
  int segment_of(int parameter) const;
  /// Finds the segments that have a weight_by_rows. `is_linear(i)`: parameter i is the weight of a linear
  /// layer, which can take it so; null: as ParameterSpec::linear says.
  void find_weights_by_rows(const std::function<bool(int)>& is_linear = nullptr);
  /// Others that read it, ascending.
  std::vector<int> borrowers_of(int parameter) const;
  /// Whether the backward pass can be taken in pieces, segment by segment.
  bool divisible = false;
  // Of a model that is divided over a tensor axis: parameters and buffers with a split are parts.
  int members = 1;
  int member = 0;                  // whose parts these are
  Task task = {};                  // what passes count, and the metrics made of it
  std::int64_t largest_batch = 0;  // samples that a pass takes at most; 0: any number
};

/// Elements of a bucket: in the weights, and in the gradients.
struct BucketRange {
  Range weights, gradients;
  /// Where weights are there only while somebody uses them: in the arena of weights. Empty: as in `weights`.
  Range gathered = {};
};

/// A linear weight whose gradient is left as its sufficient factors: D^T X of two matrices with a row for
/// each sample of the share. A row of D is the gradient at the layer's outputs, of X its inputs. Rows that
/// the share does not fill are zero.
struct FactorSlot {
  std::size_t slot = 0;
  std::size_t rows = 0;   // at most: those of the largest share
  Range outputs, inputs;  // D and X, row after row: elements of the arenas in Binding::factors
};

/// Ends of the blocks of rows in which a matrix is taken that somebody waits for. One: it is a small one.
std::vector<std::int64_t> row_ends(std::int64_t rows, std::size_t row_bytes);

/// The rows of a slot, up to `end`, that are there with bucket `bucket` and those before it.
struct RowBlock {
  std::size_t bucket = 0;  // index into Binding::buckets
  std::int64_t end = 0;
};

/// Where a model's trainable parameters live during training: slot i of the layout belongs to parameter
/// `parameters[i]`. The arenas outlive the model's use.
struct Binding {
  const tensor::ArenaLayout* layout = nullptr;
  std::vector<int> parameters;             // slot -> index into ModelSpec::parameters
  std::vector<BucketRange> buckets;        // together all of the layout, ascending in the weights
  const tensor::Arena* weights = nullptr;  // compute copy: the parameters become views into it
  /// Copies of the weights for passes that use older ones than others (Staged::use_weights), of which
  /// `weights` is the first; empty: all passes use the same.
  std::vector<const tensor::Arena*> versions;
  /// Whether the framework may make gradients in the arenas of gradients, or makes them in memory of its own.
  enum class Births { Placed, Copied } births = Births::Placed;
  /// How forward_backward() will be called. InPieces REQUIRES a divisible model.
  enum class Backward { Whole, InPieces } backward = Backward::Whole;
  std::vector<const tensor::Arena*> gradients;  // of the reduction type; StepInput says which serves a step
  /// Slots whose gradients are not computed: the backward pass leaves their factors in place of them.
  std::vector<FactorSlot> factor_slots;       // of linear parameters
  std::vector<const tensor::Arena*> factors;  // as many as gradients, and of their type; empty: none
  /// Whether somebody waits for buckets while the pass runs that makes them, or a pass for buckets: large
  /// gradients are then made, and large weights read, by row_ends(), which costs a little more than all at
  /// once. So they are whatever is there already: how communication is hidden changes no bit.
  bool pieces_are_awaited = true;
  /// Blocks of the slot's rows, ascending; the last ends with it.
  std::vector<RowBlock> row_blocks(std::size_t slot) const;
  /// The slot's factors; null: it has a gradient.
  const FactorSlot* factors_of(std::size_t slot) const;
  /// Elements of a slot in the arenas of gradients: all parts of one slot lie one after the other there too.
  Range gradient(std::size_t slot) const;
  /// Likewise in that of weights.
  Range weight(std::size_t slot) const;
  /// Weights are there only while somebody uses them (exchange::Gathering): what a segment's parameters hold
  /// counts in its passes alone. REQUIRES: a model that is divided.
  bool in_parts() const { return !buckets.empty() && buckets.front().gathered.size > 0; }
};

/// One worker's share of a step.
struct StepInput {
  data::Inputs inputs;
  data::Values labels;
  std::int64_t global_size = 0;  // samples of the whole job in this step
  int micro_batches = 1;
  std::size_t gradients = 0;  // index into Binding::gradients
  std::int64_t targets = 1;   // labels of a sample, as the data set's shape says
  std::size_t samples() const { return labels.size() / static_cast<std::size_t>(targets); }
  /// Labels of the whole job in this step: what a mean is taken over.
  double global_labels() const { return static_cast<double>(global_size * targets); }
};
/// Sums over labels.
struct StepOutput {
  double loss_sum = 0;                       // of the share
  std::array<double, kMostCounts> counts{};  // see Task::counts
  StepOutput& operator+=(const StepOutput& other);
};

/// How gradients got into the arena in the last step.
struct CopyCount {
  std::int64_t copies = 0;
  std::int64_t bytes = 0;
};

/// What becomes of one trainable parameter's gradient, or of its factors, since bind().
struct GradientTransfer {
  std::string name;
  /// Dynamic: what the steps wrote differed in size. Places are as large as the largest.
  enum class Shape { Static, Dynamic } shape = Shape::Static;
  std::int64_t bytes = 0;  // of the last step
  std::int64_t steps = 0;
  std::int64_t copies = 0;     // passes over it that brought it into the arena
  std::int64_t last_copy = 0;  // the step that made the last of them, from 1; 0: none did
  std::string why;             // that one was needed; empty: none was
};

class Staged;  // model/staged.h

/// A model as the training loop sees it. Blocking calls, all from one compute thread (libtorch keeps state
/// per thread), except spec(). Process-wide state of the framework (random generator, thread count) is the
/// model's own during a call and restored after it, so that several ranks can live in one process.
class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelSpec& spec() const = 0;
  /// Threads of the OpenMP team that passes compute with, on the thread that calls them: task::by_team().
  /// What runs between passes on that thread may use them too.
  virtual int team() const { return 1; }

  /// The same model, whose passes can be taken piece by piece; null: they can't.
  virtual Staged* staged() { return nullptr; }

  /// The order in which the backward pass completes the trainable parameters' gradients, found by one
  /// backward pass over the given samples that leaves no trace; parameters that got no gradient come last, in
  /// the order of the spec.
  virtual std::vector<int> gradient_order(data::Inputs inputs, data::Values labels) = 0;

  /// Moves the parameters into `binding.weights` (values kept, cast to its type) and sends gradients to
  /// `binding.gradients` from now on.
  virtual void bind(const Binding& binding) = 0;
  /// Gives the parameters memory of their own again, values kept, so that the model outlives the arenas. It
  /// may be bound again. After a binding in parts, there are no values to keep.
  virtual void unbind() = 0;

  /// Begins a step: the forward pass of the first micro-batch, up to segment `until` (exclusive) or less far.
  /// Reads the weights of those segments only, so the others may still change. May be called several times
  /// with growing `until`; forward_backward() with the same input goes on from there.
  virtual void forward(const StepInput& input, int until) = 0;
  /// Goes on, behind forward(input, segment), with what `segment` makes of the first `rows` of its weight,
  /// the end of a row block: reads these and its other parameters alone. REQUIRES: the segment has a
  /// weight_by_rows, and the binding's pieces are awaited. Models without passes of their own have nothing to
  /// do.
  virtual void forward_rows(const StepInput& /*input*/, int /*segment*/, std::int64_t /*rows*/) {}
  /// The rest of the step's forward pass, or all of it, and backward. Afterwards gradients[slot] is this
  /// worker's part of the gradient of the mean loss over the labels of the global batch: the sum over its own
  /// labels / global_labels(). Slots
  /// without a gradient, and all slots of an empty share, are zero. Where the binding says so factors are
  /// there instead, of all micro-batches, and their slots are as they were. marks.reached(b) as soon as
  /// bucket b is complete; every bucket is reached by the end.
  ///
  /// In pieces, if the binding says so: afterwards that holds for the segments from `from` on, and the other
  /// segments' gradients were not touched; calls with falling `from` and the same input go on from there, the
  /// last with 0. The output is the whole step's from the first call on. REQUIRES: one micro-batch then, and
  /// from == 0 otherwise.
  virtual StepOutput forward_backward(const StepInput& input, int from, tensor::Milestones& marks) = 0;

  /// Loss and counts in evaluation mode.
  virtual StepOutput evaluate(data::Inputs inputs, data::Values labels) = 0;
  /// Tokens that follow `prompt`, each drawn by the probability that the model gives it; the draws follow
  /// from `seed`. Empty: it is no model of tokens.
  virtual std::vector<std::int64_t> write(std::span<const std::int64_t> /*prompt*/, int /*count*/,
                                          std::uint64_t /*seed*/) {
    return {};
  }

  /// All buffers, one after the other in the order of the spec, as float64 (exact for float32 and for
  /// counters).
  virtual std::vector<double> buffers() const = 0;
  virtual void set_buffers(std::span<const double> values) = 0;
  /// Values of all parameters, trainable or not, one after the other in the order of the spec, as float64.
  virtual std::vector<double> parameters() const = 0;
  /// Before bind(): REQUIRES the spec's count.
  virtual void set_parameters(std::span<const double> values) = 0;

  /// State of the model's random stream (dropout), opaque.
  virtual std::vector<std::byte> random_state() const = 0;
  virtual void set_random_state(ConstView state) = 0;
  virtual CopyCount copies() const = 0;
  /// In the order of the slots; empty before the first bind() and for models that don't know.
  virtual std::vector<GradientTransfer> crossings() const = 0;
};

/// What a model is built from.
struct ModelContext {
  const plan::ModelPlan* plan = nullptr;
  const plan::TaskPlan* task = nullptr;  // null: what fits the shape
  data::SampleShape shape;
  DType compute = DType::Float32;
  std::uint64_t seed = 0;  // initial weights: equal on every rank
  int rank = 0;            // random stream of the forward pass: differs per rank
  int threads = 1;         // for the framework's kernels
};

struct ModelRow {
  std::string_view name;
  std::string_view sentence;  // "conv 32-64, fc 1024: 3.24 M parameters"
  /// Throws Error{Usage} for samples of a shape that it can't take.
  std::unique_ptr<Model> (*make)(const ModelContext&) = nullptr;
  bool takes_tokens = false;                            // or numbers
  std::vector<plan::OptionKey> (*options)() = nullptr;  // keys of its own beside those of `model`
  std::span<const plan::PlanRule> rules = {};           // what makes no sense with it
};
/// One file for each: those of libtorch in torch/networks, which a build without it lacks.
std::span<const ModelRow> model_table();
/// For plan::check_plan().
std::vector<plan::Catalogue::Model> known_models();
/// The context's task, for samples of its shape.
Task task_of(const ModelContext& context);
/// The table's model, or the TorchScript file. Throws Error{Usage} for unknown names and for samples that the
/// model does not take, Error{Data} for a file that can't be loaded or does not map inputs of that shape to
/// logits.
std::unique_ptr<Model> make_model(const ModelContext& context);

}  // namespace taxon::model
