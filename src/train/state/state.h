#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "exchange/exchange.h"
#include "model/model.h"
#include "train/observer.h"

namespace taxon::train {

/// xxHash64 of tensors, one after the other, each of which may come in parts.
class TensorHash {
 public:
  TensorHash();
  ~TensorHash();
  TensorHash(const TensorHash&) = delete;
  /// The next values of a slot; the first of it where the last call was of another one.
  void add(std::size_t slot, ConstView values);
  std::uint64_t value() const;

 private:
  void* const state_;  // XXH64_state_t
  std::optional<std::size_t> slot_;
};

/// The memory of one rank's run: arenas, the rule with its state, and the layout that names them.
class State {
 public:
  /// Allocates the arenas of `layout`, which knows what this rank owns and whether it keeps other weights
  /// too; what peers may touch in the transport's memory. `own_rules`: beside those of the table; they
  /// outlive it. `versions`: of the weights that passes of a step use at once; where there are several the
  /// model computes on a copy of each (Binding::versions), and whoever makes a version fills it.
  State(net::Transport& transport, const plan::Plan& plan, exchange::Layout layout,
        const model::ModelSpec& spec, std::span<const optim::RuleRow> own_rules = {}, int versions = 1);

  const exchange::Layout& layout() const { return layout_; }
  /// Gradients of as many steps as may be in flight: one more than the delay.
  std::size_t flights() const { return gradients_.size(); }
  exchange::Arenas arenas(std::size_t flight) const;
  const tensor::Arena& gradients(std::size_t flight) const { return gradients_[flight]; }
  /// All weights, or those that this rank keeps: Layout::gathered.
  const tensor::Arena& master() const { return master_; }
  bool in_parts() const { return layout_.gathered > 0; }
  /// Of the weights' layout, for replicas that meet; empty for a plan without such a level.
  const tensor::Arena& handed_in() const { return handed_in_; }
  /// The parameters that are not trained, one after the other in the order of the spec.
  const tensor::Arena& frozen() const { return frozen_; }
  /// They are the model's alone from now on.
  void drop_frozen() { frozen_ = {}; }
  optim::Rule& rule() { return *rule_; }
  /// optim::RuleRow::by_tensor of it.
  bool updates_by_tensor() const { return by_tensor_; }
  /// Another rule like it, with state for all weights: for an owner of parts of them.
  std::unique_ptr<optim::Rule> make_rule_of_all(const plan::OptimiserPlan& plan) const;
  /// For Model::bind.
  model::Binding binding() const;
  ArenaBytes bytes() const;

  // From here to hash(): for bodies of kernels, which alone look into the arenas.

  /// `whole`, of the weights' layout, := the model's parameters, in the order of the spec; frozen ones := the
  /// others.
  void set_weights(std::span<const double> parameters, const tensor::Arena& whole);
  /// All parameters in the order of the spec; of weights in parts zeros, and none where none is frozen.
  std::vector<double> parameters() const;
  /// Every parameter: trainable ones from `whole`, the others from `parameters`.
  std::vector<checkpoint::LogicalTensor> weights(std::span<const double> parameters,
                                                 const tensor::Arena& whole) const;
  /// An arena of the weights' layout as logical tensors "prefix/parameter", and back. Throws
  /// Error{Checkpoint} if one is missing or of another size.
  std::vector<checkpoint::LogicalTensor> named(const std::string& prefix, const tensor::Arena& whole) const;
  void fill(const std::string& prefix, const std::vector<checkpoint::LogicalTensor>& tensors,
            const tensor::Arena& whole) const;
  /// Whether `tensors` has all of "prefix/parameter", each of the arena's size: fill() would throw otherwise.
  bool holds(const std::string& prefix, const std::vector<checkpoint::LogicalTensor>& tensors,
             const tensor::Arena& whole) const;
  /// Whether arenas have some tensors in another order than files (ParameterSpec).
  bool has_channels_last() const;
  /// Slots in the order of the model: a hash in it does not depend on how the parameters were cut into
  /// buckets.
  std::vector<std::size_t> order() const;
  /// xxHash64 of the master weights, as they lie. REQUIRES: all are there.
  std::uint64_t hash() const;

 private:
  std::span<const optim::RuleRow> own_rules_;
  std::size_t slot_at(std::size_t begin) const;
  const model::ParameterSpec& parameter_of(std::size_t slot) const {
    return spec_.parameters[static_cast<std::size_t>(parameters_[slot])];
  }
  checkpoint::LogicalTensor copy_slot(const tensor::Arena& whole, std::size_t slot, std::string name) const;
  std::size_t offset(int parameter) const { return offsets_[static_cast<std::size_t>(parameter)]; }
  /// Calls `body(offset, count)` for each parameter that is not trained.
  template <class Body>
  void for_frozen(Body&& body) const;

  const model::ModelSpec& spec_;
  exchange::Layout layout_;
  std::vector<int> parameters_;       // slot -> index into the spec
  std::vector<std::size_t> offsets_;  // parameter -> first value in a flat list of all parameters
  bool in_ring_ = false;
  model::Binding::Births births_;
  std::vector<tensor::Arena> gradients_;
  tensor::Arena sums_;                  // beside gradients in a ring: the shard
  std::vector<tensor::Arena> factors_;  // as many as gradients; none where none travel
  tensor::Arena master_;
  tensor::Arena handed_in_;
  tensor::Arena frozen_;                // until the model has them
  std::vector<tensor::Arena> compute_;  // copies; none: the model computes on the master weights
  std::unique_ptr<optim::Rule> rule_;
  bool by_tensor_ = false;
};

/// The trainable parameters as the exchange sees them, in the order of the spec.
std::vector<exchange::Tensor> trainable(const model::ModelSpec& spec);

/// The model's persistent buffers as logical tensors of their types; `values`, of all, as Model::buffers()
/// gives them.
std::vector<checkpoint::LogicalTensor> named_buffers(const model::ModelSpec& spec,
                                                     std::span<const double> values);

/// Values of all parameters as float64 from logical tensors of any floating type, in the order of the spec.
/// Throws Error{Checkpoint} if the tensors are of another model; `path` names the file.
std::vector<double> parameters_from(const std::vector<checkpoint::LogicalTensor>& tensors,
                                    const model::ModelSpec& spec, const std::string& path);

}  // namespace taxon::train
