#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/comparison.h"

namespace taxon::report {

/// One entry of a comparison's table.
struct Cell {
  std::string text;                // empty: there is none
  std::optional<Estimate> number;  // what to sort by, and what the CSV holds
};

/// What a comparison says about each system. The terminal, the CSV and the page have the same columns.
struct ComparisonColumn {
  std::string_view key;    // in the CSV
  std::string_view title;  // for people
  enum class Group { Place, Result } group;
  enum class Better { Neither, More, Less, AsScored } better;
  Cell (*cell)(const Comparison&, const System&);
};
std::span<const ComparisonColumn> comparison_columns();

/// For people, in this comparison: scores have the name of what runs were scored by.
std::string title_in(const Comparison& comparison, const ComparisonColumn& column);

/// The columns in which some system has an entry.
std::vector<const ComparisonColumn*> used_columns(const Comparison& comparison,
                                                  ComparisonColumn::Group group);

/// The system whose number is the best of its column; -1: there is no best.
int best_system(const Comparison& comparison, const ComparisonColumn& column);

/// For a terminal: one row for each system; what is the same for all of them on an axis is said once above.
std::string to_text(const Comparison& comparison);

/// One line per system with a heading; numbers in SI units, each with its standard error.
std::string to_csv(const Comparison& comparison);
/// One line per test of every run.
std::string curves_csv(const Comparison& comparison);

}  // namespace taxon::report
