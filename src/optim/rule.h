#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/isa.h"
#include "base/view.h"
#include "plan/catalogue.h"
#include "tensor/arena.h"

namespace taxon::optim {

/// What a rule may know beside the numbers: the same on every rank at the same step.
struct StepClock {
  std::int64_t step = 0;      // updates done before this one; Rule::updates() of them with its state
  std::int64_t samples = 0;   // samples of the whole job consumed before this step
  double rate = 0;            // learning rate of this step
  double gradient_scale = 1;  // multiplies every gradient: the global-norm clip
};

/// Where one run of elements lies: of the weights, and from which element on of the sums and of the rule's
/// state, which may be arenas of what this rank owns alone.
struct UpdateRange {
  Range weights;
  std::size_t sum = 0;
  std::size_t state = 0;
  /// A run of arenas that all have the weights' layout.
  static UpdateRange same(Range range) { return {range, range.begin, range.begin}; }
  /// The same for a part of the run. REQUIRES: part lies in weights.
  UpdateRange of(Range part) const {
    std::size_t skipped = part.begin - weights.begin;
    return {part, sum + skipped, state + skipped};
  }
};

/// An update rule on flat ranges of typed arenas, written once for every place where optimiser state may
/// live. It owns the state for its arena (momentum, moments): zero at the start, part of the checkpoint.
/// Kernels of one range are independent of those of another, so ranges may be updated in any order within a
/// step. update() may run on any thread, one at a time per range.
class Rule {
 public:
  virtual ~Rule() = default;
  /// weights[place.weights] := the rule's step for the mean gradient, which begins at sum[place.sum]. Both
  /// arenas are of the context's master type. Reads and writes each element of weights and state once.
  virtual void update(const tensor::Arena& weights, const tensor::Arena& sum, UpdateRange place,
                      const StepClock& clock) = 0;
  /// True if what a member hands in at this step is not its gradient but what contribute() makes of it.
  virtual bool contributes(const StepClock&) const { return false; }
  /// sum[place.sum...], this member's gradient, := its contribution. `share`: of what all have alike, that it
  /// hands in. As update(), on any thread.
  virtual void contribute(const tensor::Arena&, UpdateRange, double /*share*/) {}
  /// State arenas by name ("momentum"), for checkpoints; each of the context's state elements.
  virtual std::vector<std::pair<std::string, tensor::Arena*>> state() = 0;

  /// These elements of its state are zero now, after so many steps: where replicas met and reset it, say, or
  /// a run resumed without it. Elements that nobody names were zero at the first step.
  void set_zero_at(Range state, std::int64_t step);
  std::int64_t zero_at(std::size_t state) const;

 protected:
  /// Updates that the state there has seen before this one: what a bias correction counts.
  std::int64_t updates(const StepClock& clock, std::size_t state) const {
    return std::max<std::int64_t>(0, clock.step - zero_at(state));
  }

 private:
  std::map<std::size_t, std::int64_t> zero_at_;  // by where a run begins; it ends where the next one does
};

struct RuleContext {
  DType master = DType::Float32;
  std::size_t state = 0;       // elements of each state arena
  std::vector<Range> decayed;  // ranges of the weights that weight_decay shrinks, sorted
  View beside = {};            // state is a phantom where this is one
  /// Of rows that say `by_tensor`: where each tensor lies in the weights, sorted. update() then gets ranges
  /// that end where tensors end.
  std::vector<Range> tensors = {};
  Isa isa = best_isa();  // of its kernels
};

/// An update rule, described.
struct RuleRow {
  std::string_view name;
  std::unique_ptr<Rule> (*make)(const plan::OptimiserPlan&, const RuleContext&);
  int state_arenas;  // for the memory plan
  std::string_view sentence = {};
  bool is_linear = false;     // an update is the gradient times a number, and nothing else is kept
  bool has_momentum = false;  // optimiser.momentum counts
  bool by_tensor = false;     // it needs whole tensors, for their norms
  std::vector<plan::OptionKey> (*options)() = nullptr;  // keys of its own beside those of `optimiser`
  std::span<const plan::PlanRule> rules = {};           // what makes no sense with it
};
/// One file for each family in optim/rules.
std::span<const RuleRow> rule_table();
/// The row of that name, one's own first. Throws Error{Usage} for a name that nothing has.
const RuleRow& find_rule(std::string_view name, std::span<const RuleRow> own = {});

/// For plan::check_plan().
std::vector<plan::Catalogue::Rule> known_rules(std::span<const RuleRow> own = {});

/// Sum of squares of a range in float64, in a fixed order (pairwise by blocks), so that every rank computes
/// the same number.
double squared_norm(const tensor::Arena& values, Range range);

}  // namespace taxon::optim
