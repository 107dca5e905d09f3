#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "plan/choice.h"
#include "plan/options.h"

namespace taxon::plan {

/// Closed choices of a plan. What the values mean stands with their keys.
enum class MemoryFormat : std::uint8_t { Auto, Contiguous, ChannelsLast };
enum class AsynchronousMomentum : std::uint8_t { Lowered, AsGiven };
enum class FeedbackKind : std::uint8_t { Auto, Memory, Difference, None };
enum class LevelGroup : std::uint8_t { Data, Node, Across };
enum class InnerState : std::uint8_t { Keep, Reset, Average };
enum class FactorUse : std::uint8_t { None, Auto, Always };
enum class BucketOrder : std::uint8_t { Priority, Backward };
enum class Overlap : std::uint8_t { Auto, Forward, Backward };
enum class ResolvedOverlap : std::uint8_t { Undecided, Forward, Backward };
enum class GradientMemory : std::uint8_t { Whole, Ring };
enum class Checksum : std::uint8_t { Header, Payload };
enum class Encryption : std::uint8_t { None, Tls };
enum class Split : std::uint8_t { Test, Validation };
enum class CoreShare : std::uint8_t { Share, All };
enum class ThreadWaiting : std::uint8_t { Auto, Active, Passive };
enum class OnDivergence : std::uint8_t { Stop, Skip, Ignore };
enum class OnFaulty : std::uint8_t { Stop, Skip };
enum class Activations : std::uint8_t { Kept, Recomputed };

template <>
struct Words<MemoryFormat> {
  static constexpr std::string_view all[] = {"auto", "contiguous", "channels_last"};
};
template <>
struct Words<AsynchronousMomentum> {
  static constexpr std::string_view all[] = {"lowered", "as_given"};
};
template <>
struct Words<FeedbackKind> {
  static constexpr std::string_view all[] = {"auto", "memory", "difference", "none"};
};
template <>
struct Words<LevelGroup> {
  static constexpr std::string_view all[] = {"data", "node", "across"};
};
template <>
struct Words<InnerState> {
  static constexpr std::string_view all[] = {"keep", "reset", "average"};
};
template <>
struct Words<FactorUse> {
  static constexpr std::string_view all[] = {"none", "auto", "always"};
};
template <>
struct Words<BucketOrder> {
  static constexpr std::string_view all[] = {"priority", "backward"};
};
template <>
struct Words<Overlap> {
  static constexpr std::string_view all[] = {"auto", "forward", "backward"};
};
template <>
struct Words<GradientMemory> {
  static constexpr std::string_view all[] = {"whole", "ring"};
};
template <>
struct Words<Checksum> {
  static constexpr std::string_view all[] = {"header", "payload"};
};
template <>
struct Words<Encryption> {
  static constexpr std::string_view all[] = {"none", "tls"};
};
template <>
struct Words<Split> {
  static constexpr std::string_view all[] = {"test", "validation"};
};
template <>
struct Words<CoreShare> {
  static constexpr std::string_view all[] = {"share", "all"};
};
template <>
struct Words<ThreadWaiting> {
  static constexpr std::string_view all[] = {"auto", "active", "passive"};
};
template <>
struct Words<OnDivergence> {
  static constexpr std::string_view all[] = {"stop", "skip", "ignore"};
};
template <>
struct Words<OnFaulty> {
  static constexpr std::string_view all[] = {"stop", "skip"};
};
template <>
struct Words<Activations> {
  static constexpr std::string_view all[] = {"kept", "recomputed"};
};
template <>
struct Words<ResolvedOverlap> {
  static constexpr std::string_view all[] = {"", "forward", "backward"};
};

/// Every struct here is plain data with the defaults that a recipe which says nothing gets. The sentence, the
/// key and the bounds of each field stand once, in plan/fields.h, which reading, writing, overriding and help
/// are made from.

struct ModelPlan {
  std::string name = "cnn";  // a row of the model table; empty when torchscript is given
  std::string torchscript;   // path of a TorchScript file that maps a batch of inputs to logits
  std::vector<std::string>
      frozen;  // parameters (exact names, or prefixes ending in '*') that are not trained
  MemoryFormat memory_format = MemoryFormat::Auto;  // auto, contiguous, channels_last
  Options options;                                  // of the model: keys of its own
  friend bool operator==(const ModelPlan&, const ModelPlan&) = default;
};

/// What the model is trained and judged by.
struct TaskPlan {
  std::string name = "auto";  // a row of the task table, or auto: the first that fits the data
  Options options;            // of the task: keys of its own
  friend bool operator==(const TaskPlan&, const TaskPlan&) = default;
};

/// What is done to every sample when it is read.
struct TransformPlan {
  std::string name;  // a row of the transform table
  Options options;   // of the transform: keys of its own
  friend bool operator==(const TransformPlan&, const TransformPlan&) = default;
};

struct DataPlan {
  std::string dataset = "idx";  // a row of the dataset table
  std::string path = "/usr/share/datasets/fashion-mnist";
  std::string test_path;         // of the test set, where it does not lie with the training set
  double mean = 0.2860;          // of pixels, subtracted after scaling them to [0, 1]
  double deviation = 0.3530;     // then divided by
  std::int64_t train_limit = 0;  // use only the first so many training samples; 0: all
  std::int64_t test_limit = 0;
  // Samples to choose hyperparameters by: at most one of these three.
  std::int64_t validation = 0;            // the last so many training samples
  double validation_share = 0;            // the last samples, as a share of the training samples
  std::string validation_path;            // a set of its own
  std::uint64_t split_seed = 0;           // draws the order that first and last are meant in; 0: see fields.h
  OnFaulty faulty = OnFaulty::Stop;       // a sample that can't be read: stop, skip
  int prefetch = 2;                       // batches prepared ahead
  int threads = 0;                        // that prepare them, at most; 0: as many as compute threads
  std::vector<TransformPlan> transforms;  // in this order
  Options options;                        // of the data set: keys of its own
  friend bool operator==(const DataPlan&, const DataPlan&) = default;
};

struct BatchPlan {
  std::int64_t global =
      0;  // samples per step over all workers; exactly one of global and per_worker is given
  std::int64_t per_worker = 0;
  int micro_batches = 1;  // gradient accumulation: the worker's share is cut into so many parts
  friend bool operator==(const BatchPlan&, const BatchPlan&) = default;
};

struct PrecisionPlan {
  DType compute = DType::Float32;  // of weights and activations in forward and backward
  DType master = DType::Float32;   // of the weights that the optimiser updates, and of the sums
  friend bool operator==(const PrecisionPlan&, const PrecisionPlan&) = default;
};

struct OptimiserPlan {
  std::string rule = "momentum";                                               // a row of the rule table
  double momentum = 0.9;                                                       // where the rule has one
  AsynchronousMomentum asynchronous_momentum = AsynchronousMomentum::Lowered;  // lowered, as_given
  double weight_decay = 0;
  bool decay_all = false;  // false: one-dimensional parameters (biases, norms) are not decayed
  double clip_norm = 0;    // global gradient norm; 0: none
  Options options;         // of the rule: keys of its own
  friend bool operator==(const OptimiserPlan&, const OptimiserPlan&) = default;
};

/// Learning rate as a function of the samples that the whole job consumed.
struct RatePlan {
  double base = 0.05;
  std::string schedule = "cosine";  // a row of the schedule table
  std::int64_t warmup_samples = 0;  // linear from 0 to base
  Options options;                  // of the schedule: keys of its own
  friend bool operator==(const RatePlan&, const RatePlan&) = default;
};

/// How long to train; exactly one of the first three is given.
struct LengthPlan {
  double epochs = 0;
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  double seconds = 0;  // and no longer than this, wherever the learning rate then is; 0: no limit
  friend bool operator==(const LengthPlan&, const LengthPlan&) = default;
};

inline constexpr std::string_view kChosenSplits = "auto";

/// Sizes of the axes over which ranks are laid out; 0: what remains of the world size.
struct MeshPlan {
  int data = 0;
  int pipeline = 1;  // ranks that hold one stage of the model after the other, or several
  int tensor = 1;    // ranks among which a stage's layers are split
  int node = 0;      // consecutive ranks that make a node, for levels; 0: as many as share memory
  int servers = 0;   // ranks, the last ones, that only serve; 0: all work, and serve where a level asks
  // "LAYER=ROW": how layers are split over the tensor axis (src/parallel/split.h) in place of the model's
  // rule; kChosenSplits: those not named so that members send fewest bytes
  std::vector<std::string> splits;
  friend bool operator==(const MeshPlan&, const MeshPlan&) = default;
};

/// What stages of a model do in a step, where mesh.pipeline has them on several ranks.
struct PipelinePlan {
  std::string schedule = "1f1b";  // a row of the table of schedules (src/program)
  std::vector<std::string> cut;  // segments that begin a stage after the first; empty: balanced by operations
  Activations activations = Activations::Kept;  // kept, recomputed
  Options options;                              // of the schedule: keys of its own
  friend bool operator==(const PipelinePlan&, const PipelinePlan&) = default;
};

/// What travels in place of gradients.
struct CodecPlan {
  std::string name = "none";                   // a row of the codec table; none: gradients as they are; auto
  std::string of = "bf16";                     // auto: the codec of buckets that it makes faster
  FeedbackKind feedback = FeedbackKind::Auto;  // memory: what did not travel is added to the next gradient;
                                               // difference: of what travelled before; none; auto
  double decay = 1;                            // of the memory: what it keeps of itself from step to step
  double momentum = 0;                         // of the memory: velocities are added up in place of gradients
  bool masking = true;                         // velocities are cleared where entries travelled
  std::vector<double> warmup_density;          // at the beginning, each for warmup_steps
  std::int64_t warmup_steps = 1;
  std::int64_t dense_steps = 0;  // at the beginning, in which everything travels as it is
  std::int64_t dense_below = 0;  // buckets of fewer values travel as they are
  std::string answer = "none";   // topology servers: the codec of what travels back
  bool global = false;           // one sketch and one choice of entries for the whole model
  bool force = false;            // also inside a node
  Options options;               // of the codecs that are named: keys of their own
  /// The codec of what does not travel as it is.
  const std::string& candidate() const { return name == "auto" ? of : name; }
  friend bool operator==(const CodecPlan&, const CodecPlan&) = default;
};

/// One level of the exchange: who meets, how, and what travels.
struct LevelPlan {
  LevelGroup group = LevelGroup::Data;  // who meets: data (all ranks), or node and then across
  std::string topology = "all_reduce";  // a row of the topology table
  std::string collective = "auto";  // a row of the collective table, or auto: chosen once per bucket by cost
  std::string graph = "exponential";  // topology gossip: a row of the graph table
  // Where replicas that are trained apart meet: at most the last level.
  std::string rule = "sum";       // sum: gradients go on to the optimiser; else a row of the outer table
  int period = 1;                 // steps from one meeting to the next
  std::int64_t warmup_steps = 0;  // at first they meet after every step
  double rate = 1;                // of the outer rule
  double momentum = 0;            // of the outer rule
  InnerState inner_state =
      InnerState::Keep;  // the replicas' optimiser state at a meeting: keep, reset, average
  int fragments = 1;     // parts of the model that meet one after the other
  int delay = 0;         // steps between a meeting and the adoption of what it gave
  double mixing = 0;     // share of its own weights that a replica keeps then
  // Topology servers: when what a worker hands in counts, and when it may go on.
  std::string consistency = "clocks";   // a row of the consistency table
  std::string late = "as_others";       // contributions that are updates late: a row of the late table
  FactorUse factors = FactorUse::None;  // linear layers' gradients as sufficient factors: none, auto, always
  CodecPlan codec;
  Options options;  // of the topology, rule, consistency and late that are named: keys of their own
  friend bool operator==(const LevelPlan&, const LevelPlan&) = default;
};

struct ExchangePlan {
  std::int64_t bucket_bytes =
      4 << 20;  // gradients that complete one after the other travel together up to this size
  std::int64_t slice_bytes = 4 << 20;         // a larger gradient travels in equal parts of at most this size
  int in_flight = 4;                          // buckets that are exchanged at once
  BucketOrder order = BucketOrder::Priority;  // priority: first layers first; backward: as gradients complete
  Overlap overlap = Overlap::Auto;            // what hides communication: backward, forward, or auto
  GradientMemory gradients = GradientMemory::Whole;  // memory: whole, or a ring of a few buckets
  int delay = 0;                                     // steps between a gradient and its update
  std::vector<LevelPlan> levels = {LevelPlan{}};
  friend bool operator==(const ExchangePlan&, const ExchangePlan&) = default;
};

struct TransportPlan {
  std::string kind = "auto";                 // a row of net/transport_choice.h
  Checksum checksum = Checksum::Header;      // header, payload
  bool trace_allocations = true;             // gradients are born where they travel from
  Encryption encryption = Encryption::None;  // between hosts: none, tls
  int connections = 0;  // from one rank to another over TCP; 0: as many as the path needs
  friend bool operator==(const TransportPlan&, const TransportPlan&) = default;
};

struct ControlPlan {
  std::string address;            // host:port of rank 0; empty: what the launcher says
  std::string secret_file;        // the job's secret; empty: TAXON_SECRET or TAXON_SECRET_FILE
  double join_seconds = 300;      // all ranks must have joined by then
  double silence_seconds = 5;     // a rank that says nothing for so long is reported
  double hang_seconds = 8;        // a wait of so long is reported
  double deadline_seconds = 600;  // a silent rank or a stuck wait ends the run after this
  friend bool operator==(const ControlPlan&, const ControlPlan&) = default;
};

struct EvaluationPlan {
  double every_epochs = 1;    // test scores and loss; 0: only at the end
  std::int64_t batch = 500;   // samples per forward pass
  Split split = Split::Test;  // test, validation
  friend bool operator==(const EvaluationPlan&, const EvaluationPlan&) = default;
};

struct CheckpointPlan {
  double every_epochs = 0;  // 0: only at the end and when interrupted
  std::int64_t every_steps = 0;
  int keep = 2;  // older ones are removed
  friend bool operator==(const CheckpointPlan&, const CheckpointPlan&) = default;
};

struct ReportPlan {
  double every_seconds = 2;  // progress lines off a terminal
  int metrics_steps = 10;    // one line of metrics.jsonl and one TensorBoard point per so many steps
  bool tensorboard = true;
  bool trace = false;    // trace.json for Chrome or Perfetto
  int hash_steps = 200;  // parameters' hashes are compared over the ranks every so many steps, and at the end
  friend bool operator==(const ReportPlan&, const ReportPlan&) = default;
};

/// Workers whose kernels take longer.
struct SlowdownPlan {
  int rank = -1;           // -1: every one
  double slowdown = 1;     // their kernels take so many times as long
  double probability = 1;  // that a kernel is hit, drawn for each from the seed
  friend bool operator==(const SlowdownPlan&, const SlowdownPlan&) = default;
};

/// Hosts that a machine plays: compute kernels end no sooner than they would there. The results are the same
/// wherever they don't depend on who is first.
struct EmulationPlan {
  double cores = 0;  // of a worker: a kernel takes its processor time over these; 0: as long as it takes
  std::vector<SlowdownPlan> slow;
  friend bool operator==(const EmulationPlan&, const EmulationPlan&) = default;
};
/// In words, for reports; empty: nothing is emulated.
std::string describe(const EmulationPlan& emulation);

/// What the run decided from the plan, written into plan.yaml so that a run can be repeated exactly. Empty in
/// recipes.
struct BucketPlan {
  std::vector<std::string> parameters;  // in the order in which they lie in the bucket
  int part = 0;                         // of a single parameter that is cut into `parts`
  int parts = 1;
  std::int64_t bytes = 0;
  std::vector<std::string> collectives;  // "reduce_scatter direct": in the order of their use, inward again
  std::vector<std::string> reasons;      // by level with codec auto: why its codec serves the bucket, or not;
                                         // and why linear layers travel as sufficient factors, or not
  std::int64_t factors = 0;  // of the sufficient factors that a worker hands in in its place; 0: as it is
  friend bool operator==(const BucketPlan&, const BucketPlan&) = default;
};
/// "fc2.bias, fc2.weight" or "fc1.weight, part 2 of 4".
std::string describe(const BucketPlan& bucket);
struct ResolvedPlan {
  int world_size = 0;
  std::int64_t train_samples = 0;  // 0: not known, of an older checkpoint
  std::string transport;
  ResolvedOverlap overlap = ResolvedOverlap::Undecided;
  int node = 0;                      // ranks per node; 0: no level asks
  std::int64_t optimiser_begun = 0;  // steps before the optimiser's state was zero, of a run that resumed
  std::vector<BucketPlan> buckets;   // in the order in which the backward pass completes them
  friend bool operator==(const ResolvedPlan&, const ResolvedPlan&) = default;
};

/// Everything that describes a run. What the YAML file holds, the command line overrides, the planner
/// searches, the report prints and a checkpoint records.
struct Plan {
  std::string name = "run";
  std::uint64_t seed = 1;
  int threads = 0;  // compute threads per worker; 0: the host's cores divided by its workers
  CoreShare cores = CoreShare::Share;  // of a worker: its share of the host's, or all
  ThreadWaiting waiting =
      ThreadWaiting::Auto;  // of compute threads for their next work: auto, active, passive
  OnDivergence on_divergence =
      OnDivergence::Stop;  // a loss or gradient that is not finite: stop, skip, ignore
  ModelPlan model;
  TaskPlan task;
  DataPlan data;
  BatchPlan batch;
  PrecisionPlan precision;
  OptimiserPlan optimiser;
  RatePlan learning_rate;
  LengthPlan length;
  MeshPlan mesh;
  PipelinePlan pipeline;
  ExchangePlan exchange;
  TransportPlan transport;
  ControlPlan control;
  EvaluationPlan evaluation;
  CheckpointPlan checkpoint;
  ReportPlan report;
  EmulationPlan emulation;
  ResolvedPlan resolved;
  friend bool operator==(const Plan&, const Plan&) = default;
};

struct Catalogue;  // plan/catalogue.h

/// One thing that is wrong with a plan. `key` is its dotted path.
struct Problem {
  std::string key;
  std::string sentence;  // what is wrong and what to do
  friend bool operator==(const Problem&, const Problem&) = default;
};

/// Reads a recipe. Throws Error{Usage} whose message lists every unknown key (with the nearest known one),
/// wrong type and value out of range, with line numbers; Error{Usage} also when the file can't be read or is
/// no YAML. `overrides` are "key.path=value", applied after the file; their mistakes join the same list.
/// With a catalogue names and rows' keys are checked too, and those that nobody gave are spelled out with
/// their defaults. Without one, words of a level or its codec that are no keys of all rows stay as they are
/// written, for check_plan() to judge.
Plan read_plan(const std::string& path, const std::vector<std::string>& overrides = {},
               const Catalogue* catalogue = nullptr);
/// The same from text; `origin` names it in messages.
Plan parse_plan(const std::string& yaml, const std::string& origin,
                const std::vector<std::string>& overrides = {}, const Catalogue* catalogue = nullptr);
/// A plan with "key.path=value" applied. Throws Error{Usage} that lists their mistakes.
/// With a catalogue, what the plan had of a row's keys that the row now named does not have is left out.
Plan override_plan(Plan plan, const std::vector<std::string>& overrides,
                   const Catalogue* catalogue = nullptr);
/// The plan as YAML, every key, in the order of fields.h, then the rows' keys that it has; parse_plan() of it
/// is the plan again.
std::string write_plan(const Plan& plan);

/// The legality table: every rule that the plan breaks for this world size, in the table's order, and those
/// of the rows that it names. Empty: legal. Names (models, rules, collectives, ...) and rows' options are
/// checked against the catalogue.
std::vector<Problem> check_plan(const Plan& plan, int world_size, const Catalogue& known);
/// Throws Error{Usage} that lists `problems`, one per line, if there are any.
void require_legal(const std::vector<Problem>& problems);

/// A hash of everything that all ranks must agree on; equal plans, equal hashes. 16 hex digits.
std::string plan_hash(const Plan& plan);

/// Replicas of the model that share the samples: all ranks but dedicated servers, over those that a replica
/// is divided among.
int workers(const Plan& plan, int world_size);
/// Samples per step over all workers, whichever key the recipe used.
std::int64_t global_batch(const Plan& plan, int world_size);
/// Samples of a step at the worker that has most.
std::int64_t largest_share(const Plan& plan, int world_size);
/// How far training is.
struct Reached {
  std::int64_t steps = 0, samples = 0;
};
/// Samples after which training ends, for a training set of that size; of a run that goes on from `reached`
/// where its length is in steps and batches may be others from there on.
std::int64_t total_samples(const Plan& plan, int world_size, std::int64_t train_size, Reached reached = {});

}  // namespace taxon::plan
