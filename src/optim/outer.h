#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "optim/rule.h"
#include "plan/catalogue.h"
#include "tensor/arena.h"

namespace taxon::optim {

/// What happens where replicas that were trained apart meet: the rule at the owner of a range. Replicas hand
/// in their weights, the owner answers with values, and every replica adopts the answer. Its state (centre,
/// outer momentum) covers what this rank owns. update() and adopt() may run on any thread, one at a time per
/// range.
class OuterRule {
 public:
  virtual ~OuterRule() = default;
  /// The owner's copy starts as the initial weights, which every replica has.
  virtual void begin(const tensor::Arena& weights, UpdateRange place) = 0;
  /// sum[place.sum...] := the answer to `weight` replicas whose weights it holds the sum of.
  virtual void update(const tensor::Arena& sum, UpdateRange place, double weight, const StepClock& clock) = 0;
  /// What a replica makes of an answer; by default it takes it as it is. `sum` as in update().
  virtual void adopt(const tensor::Arena& replica, const tensor::Arena& sum, UpdateRange place);
  /// How many values update() and adopt() read and write for each element, which is what they cost in a
  /// simulation.
  virtual int update_touches(double /*weight*/) const { return 4; }
  virtual int adopt_touches() const { return 2; }
  /// What stands for the model while replicas differ.
  enum class Shown { Mean, Centre };
  virtual Shown shown() const { return Shown::Mean; }
  /// The owner's copy of the weights; null for a rule that keeps none.
  virtual const tensor::Arena* centre() const { return nullptr; }
  /// State arenas by name, for checkpoints; each of the context's state elements.
  virtual std::vector<std::pair<std::string, tensor::Arena*>> state() = 0;
};

struct OuterContext {
  DType master = DType::Float32;
  std::size_t state = 0;  // elements of each state arena
  int members = 1;        // replicas that meet
  View beside = {};       // state is a phantom where this is one
};

/// An outer rule, described.
struct OuterRow {
  std::string_view name;
  std::string_view sentence;
  std::unique_ptr<OuterRule> (*make)(const plan::LevelPlan&, const OuterContext&);
  int state_arenas;                // for the memory plan
  std::string_view replicas = {};  // what becomes of them, on the axis of optimisation; empty: its name
  bool keeps_centre = true;
  /// What no meeting changes the sum of, but for rounding.
  enum class Conserves { Nothing, Replicas, ReplicasAndCentre } conserves = Conserves::Nothing;
  std::span<const plan::LevelRule> rules = {};          // what makes no sense with it
  std::vector<plan::OptionKey> (*options)() = nullptr;  // keys of its own in a level's section
};
/// One file for each family in optim/outer.
std::span<const OuterRow> outer_table();
/// The row of that name, one's own first. Throws Error{Usage} for a name that nothing has.
const OuterRow& find_outer(std::string_view name, std::span<const OuterRow> own = {});

/// For plan::check_plan().
std::vector<plan::Catalogue::Outer> known_outer_rules(std::span<const OuterRow> own = {});

}  // namespace taxon::optim
