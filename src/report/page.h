#pragma once

#include <string>

namespace taxon::report {

/// A whole HTML document around `body`, with the style that charts need and the script of its tables and
/// legends. `title` is plain text, `body` markup.
std::string page(const std::string& title, const std::string& body);

/// An SVG file out of a chart of to_svg(), painted as in a page, light or dark as the reader's system is.
std::string picture(const std::string& chart);

}  // namespace taxon::report
