#pragma once

#include <string>
#include <string_view>

namespace taxon::app {

/// What the rows of that name, in whichever tables, say of themselves: a sentence, the recipe's key that
/// names them, keys of their own with defaults, what makes no sense with them. Throws Error{Usage}, which
/// suggests the nearest one, for a name that no table has.
std::string row_page(std::string_view name);

}  // namespace taxon::app
