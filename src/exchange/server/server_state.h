#pragma once

#include <functional>
#include <memory>

#include "optim/outer.h"
#include "optim/rule.h"
#include "tensor/arena.h"

namespace taxon::exchange {

/// What made an update.
struct PendingUpdate {
  double contributions = 1;
  double scale = 1;          // makes a mean of the sum of gradients
  std::int64_t before = 0;   // updates before it
  std::int64_t samples = 0;  // of all updates before it
};

/// What a server does with the parts that it owns: its memory, of the weights' layout. Methods that touch
/// memory are for bodies of kernels.
class ServerState {
 public:
  virtual ~ServerState() = default;
  /// Its memory starts as the weights.
  virtual void begin(const tensor::Arena& weights, Range range) = 0;
  /// The sum of a pool's contributions begins at `sum`'s element 0. May overwrite it with the answer.
  virtual void update(const tensor::Arena& sum, Range range, const PendingUpdate& pool) = 0;
  /// What an answer is: the owner's values as they are when it is given, or what its own update made of the
  /// sum.
  enum class Answers { Values, Updates } answers = Answers::Values;
  /// What stands for the model.
  virtual const tensor::Arena& values() const = 0;
  virtual std::vector<std::pair<std::string, tensor::Arena*>> state() = 0;
};

/// Owns weights and the optimiser's state; contributions are gradients. `rate`: the learning rate after so
/// many samples.
std::unique_ptr<ServerState> make_weight_server(std::unique_ptr<optim::Rule> rule, tensor::Arena weights,
                                                std::function<double(std::int64_t samples)> rate);
/// Owns what replicas meet at; contributions are weights. REQUIRES: a rule with a centre.
std::unique_ptr<ServerState> make_centre_server(std::unique_ptr<optim::OuterRule> rule,
                                                std::function<double(std::int64_t samples)> rate);

}  // namespace taxon::exchange
