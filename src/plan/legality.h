#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "plan/plan.h"

namespace taxon::plan {

/// What a rule of the legality table looks at.
struct LegalityInput {
  const Plan& plan;
  int world_size;
  const KnownNames& known;
};

/// One combination that makes no run.
struct LegalityRow {
  std::string_view key;
  std::string_view sentence;  // what must hold, as in "batch: ..."
  /// Empty when the rule holds; otherwise what the plan says instead.
  std::optional<std::string> (*broken)(const LegalityInput&);
};
std::span<const LegalityRow> legality_table();

}  // namespace taxon::plan
