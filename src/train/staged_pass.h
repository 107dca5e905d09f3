#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exchange/gathering.h"
#include "model/staged.h"
#include "task/scope.h"
#include "train/crossing.h"
#include "train/flight.h"
#include "train/start/divided.h"
#include "train/weight_versions.h"

namespace taxon::train {

/// A rank's passes through the part of a model that it holds: its actions of a program, one after the other
/// on the compute stream, and beside them what moves between stages and between the members of the tensor
/// axis.
class StagedPass {
 public:
  /// Everything outlives the pass.
  struct Setup {
    model::Model* model = nullptr;  // divided
    const Divided* divided = nullptr;
    ReplicaGroup* replica = nullptr;
    model::Binding binding;                 // of the model, for costs
    DType type = DType::Float32;            // that it computes in
    const tensor::Arena* master = nullptr;  // of the weights that updates change
    int replicas = 1;                       // that share a batch
    plan::Activations activations = plan::Activations::Kept;
    /// Of parameters that are gathered before a segment uses them, so many segments ahead; null: all are
    /// there.
    exchange::Gathering* parameters = nullptr;
    int ahead = 0;
  };
  StagedPass(comm::Runtime& runtime, Setup setup);

  struct Done {
    model::StepOutput output;  // of the last stage's first member; nothing elsewhere
    Duration busy{0};          // in kernels
    Duration idle{0};          // waiting for other stages and members
  };
  /// The step before, whose exchange may still be under way. Both account for the time themselves.
  struct Before {
    std::function<task::Task<void>(int segment)> weights;  // suspends until the segment's are there
    std::function<task::Task<void>()> end;  // suspends until all is over, and begins this step's exchange
  };
  /// The whole step; `flight` gets the kernels that complete gradients. Segments wait for their own weights,
  /// the first gradient for the end of the step before. Nothing of it is in flight when this ends, also with
  /// an error; of the exchange, with `clock`, only where the program updates while it runs: then this begins
  /// and ends one for each update, as many as updates() more of them make a step of the clock.
  task::Task<Done> run(const model::StepInput* input, Flight* flight, optim::StepClock clock,
                       const Before* before);
  /// Of each stage, in a step. Above 1 they are the pass's own.
  int updates() const { return setup_.divided->updates; }

  /// Collective over the replica: forward in evaluation mode, of these samples of a data set. Loss and counts
  /// as Done::output. Where parameters are gathered it is collective over their owners too, and there may be
  /// no samples.
  task::Task<model::StepOutput> evaluate(const data::Dataset* dataset, std::vector<std::int64_t> indices);

 private:
  using Place = std::pair<int, int>;  // a piece or a stage, and a micro-batch
  /// One on its way to this rank.
  struct Arrival {
    Payload payload;
    std::unique_ptr<task::Event> here;
  };
  struct Step;

  task::Task<void> carry_out(Step* step);
  task::Task<void> end_before(Step* step);
  void begin_update(Step* step, int number);
  task::Task<void> update(Step* step, std::size_t index);
  /// Shares of a step whose gradients are means over the samples of each update, of all replicas.
  std::vector<model::StepInput> inputs_of_updates(const model::StepInput& input) const;
  /// The actions after which the gradients of an update are complete.
  std::set<std::size_t> completions() const;
  /// The copy of the weights that an action uses.
  std::size_t copy_for(const program::Action& action) const;
  void use(std::size_t copy);
  task::Task<model::StepOutput> pass_forward(const data::Dataset* dataset, std::vector<std::int64_t> indices);
  /// Segments in the order in which actions pass them, each of a piece of its own.
  std::vector<int> segments_passed() const;
  /// Gathers what the next segment's pass reads, and what those after it will.
  task::Task<void> open(Step* step, int index);
  task::Task<void> room(Step* step, std::size_t segment);
  /// Of forward passes of a replica's samples through these segments of a piece.
  tensor::Cost cost_of(const model::Piece& piece, std::size_t samples, Range segments) const;
  task::Task<void> forward(Step* step, program::Action action);
  task::Task<void> backward(Step* step, program::Action action, bool last);
  void send(Step* step, program::Action action);
  void expect(Step* step, program::Action action);
  void expect_until_next_pass(Step* step, std::size_t at);
  task::Task<void> transmit(Rank peer, net::Tag tag, Payload payload);
  task::Task<void> take_in(Rank peer, net::Tag tag, Arrival* arrival);
  task::Task<void> receive(Step* step, program::Action action);
  task::Task<void> carry(Step* step, Crossing crossing, Payload* values);
  /// Samples of a piece that this member has.
  std::size_t own_samples(const model::Piece& piece, std::size_t samples) const;
  task::Task<void> pass(Step* step, const char* name, tensor::Kernel kernel);
  task::Task<void> complete(Step* step, tensor::Kernel kernel, int segment);
  model::MicroBatch micro_batch(const Step& step, int micro) const;

  const std::vector<program::Action>& actions() const;
  const std::vector<model::Piece>& pieces() const { return staged_.pieces(); }
  const model::Piece& piece(int index) const { return pieces()[static_cast<std::size_t>(index)]; }
  /// Indices of the pieces of a stage that this rank holds.
  std::vector<int> pieces_of(int stage) const;
  bool holds(int stage) const;
  Rank holder(int stage) const;
  bool counts_output() const { return setup_.replica->tensor.rank() == 0; }

  comm::Runtime& runtime_;
  const Setup setup_;
  model::Staged& staged_;
  const program::Program& program_;
  std::vector<int> update_of_;              // of each micro-batch, by number
  std::vector<int> passed_;                 // segments_passed()
  std::optional<WeightVersions> versions_;  // none: all passes use the newest weights
  ActivationPool pool_;
  Crossings crossings_;
};

}  // namespace taxon::train
