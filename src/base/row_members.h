#pragma once

#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/problems.h"

namespace taxon {

/// What rows that a program brings must not leave out: adds a sentence for each of these members that is null
/// or empty in a row, the row's name included. `table`: what the rows are called.
template <class Row, class... Members>
void require_members(Problems& problems, std::string_view table, std::span<const Row> rows,
                     std::pair<const char*, Members Row::*>... members) {
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const Row& row = rows[r];
    const auto require = [&](const char* name, auto member) {
      if (row.*member != std::remove_cvref_t<decltype(row.*member)>()) return;
      const std::string which = row.name.empty() ? std::to_string(r) : '"' + std::string(row.name) + '"';
      problems.add(std::string(table) + ": row " + which + " lacks its member " + name);
    };
    require("name", &Row::name);
    (require(members.first, members.second), ...);
  }
}

}  // namespace taxon
