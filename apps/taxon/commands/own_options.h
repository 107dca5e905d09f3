#pragma once

#include <fmt/format.h>

#include <span>
#include <string>
#include <vector>

#include "base/problems.h"
#include "plan/options.h"

namespace taxon::app {

/// Words KEY=VALUE as options; those that are none join the problems, each behind the name of its option.
plan::Options parse_own_options(const std::vector<std::string>& words, const std::string& option,
                                Problems& problems);

/// A line for each row of a table whose rows have keys of their own, with its source, and one for each key.
template <class Row>
std::string list_of(std::span<const Row> rows) {
  std::string text;
  for (const Row& row : rows) {
    text += fmt::format("{:<14} {} ({})\n", row.name, row.sentence, row.source);
    for (const plan::OptionKey& key : row.options())
      text +=
          fmt::format("{:<14}   --set {}={}: {} {}\n", "", key.key, key.standard, key.sentence, key.allowed);
  }
  return text;
}

/// The names of keys, in order.
std::vector<std::string> names_of(const std::vector<plan::OptionKey>& keys);

}  // namespace taxon::app
