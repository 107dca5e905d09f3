#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"

namespace taxon::plan {

/// A key that has another value in one plan than in the other.
struct Difference {
  std::string key;           // "learning_rate.base", "exchange.levels[0].topology"
  std::string before, now;   // as they stand in files; empty: it is not there
  std::string alternatives;  // the same word for keys that stand for each other; empty: none does
};

/// "seed was 3 and is 9".
std::string describe(const Difference& difference);

/// In the order of fields.h. What a run resolved is left out.
std::vector<Difference> differences(const Plan& before, const Plan& now);

/// Those of `differences` that none of `assignments` ("key.path=value", see read_plan()) gives.
std::vector<Difference> not_given(std::vector<Difference> differences,
                                  const std::vector<std::string>& assignments);

}  // namespace taxon::plan
