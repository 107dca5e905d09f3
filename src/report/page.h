#pragma once

#include <string>

namespace taxon::report {

/// A whole HTML document around `body`, with the style that charts need and the script of its tables and
/// legends. `title` is plain text, `body` markup.
std::string page(const std::string& title, const std::string& body);

}  // namespace taxon::report
