#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "plan/catalogue.h"
#include "plan/plan.h"

namespace taxon::plan {

/// What a rule of the legality table looks at.
struct LegalityInput {
  const Plan& plan;
  int world_size;
  const Catalogue& known;
};

/// One combination that makes no run.
struct LegalityRow {
  std::string_view key;
  std::string_view sentence;  // what must hold, as in "batch: ..."
  /// Empty when the rule holds; otherwise what the plan says instead.
  std::optional<std::string> (*broken)(const LegalityInput&);
  /// A rule of names needs nothing but the plan and the catalogue, so reading asks it already.
  enum class About { Combination, Name } about = About::Combination;
};
std::span<const LegalityRow> legality_table();

/// Rules that need no world size: names that the catalogue has not. Lists that it lacks are not asked.
std::vector<Problem> check_names(const Plan& plan, const Catalogue& catalogue);

}  // namespace taxon::plan
