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

/// What is known of a contribution beside its numbers.
struct Lateness {
  int worker = 0;
  std::int64_t staleness = 0;  // updates since the values that it was computed with
  double share = 1;            // a gradient's: the contribution is so much times the worker's mean gradient
};

/// What an owner without a common step makes of a contribution before it counts: it was computed with values
/// that are some updates old. Both methods may run on any thread, one at a time.
class StalenessRule {
 public:
  virtual ~StalenessRule() = default;
  /// `worker` was given values[place.weights], which its next contribution is computed with. `place.state`:
  /// where the run begins in this rule's state.
  virtual void served(int worker, const tensor::Arena& values, UpdateRange place) = 0;
  /// Corrects handed_in[place.sum...] for an owner that has now[place.weights].
  virtual void correct(const tensor::Arena& handed_in, const tensor::Arena& now, UpdateRange place,
                       const Lateness& lateness) = 0;
  /// State arenas by name, for checkpoints; each of the context's state elements.
  virtual std::vector<std::pair<std::string, tensor::Arena*>> state() = 0;
};

struct LateContext {
  DType type = DType::Float32;
  std::size_t state = 0;  // elements that the owner owns
  int workers = 1;
  View beside = {};  // state is a phantom where this is one
};

struct LateRow {
  std::string_view name;
  std::string_view sentence;
  /// What it can be told of: gradients are handed in with rule sum, weights with another.
  enum class Corrects { Both, Gradients, Weights } corrects;
  /// It must know what a worker was served last when it corrects what was computed with that.
  bool keeps_served;
  /// Null: nothing is done.
  std::unique_ptr<StalenessRule> (*make)(const plan::LevelPlan&, const LateContext&);
  std::string_view scheduling = {};                     // its words on that axis; empty: none
  std::span<const plan::LevelRule> rules = {};          // what makes no sense with it
  std::vector<plan::OptionKey> (*options)() = nullptr;  // keys of its own in a level's section
};
/// One file for each family in optim/staleness.
std::span<const LateRow> late_table();
/// The row of that name, one's own first. Throws Error{Usage} for a name that nothing has.
const LateRow& find_late(std::string_view name, std::span<const LateRow> own = {});
/// For plan::check_plan().
std::vector<plan::Catalogue::Late> known_lates(std::span<const LateRow> own = {});

}  // namespace taxon::optim
