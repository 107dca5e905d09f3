#pragma once

#include <string>
#include <string_view>

namespace taxon::report {

/// Text as it must stand in HTML and SVG, in content and in attributes between double quotes. Control
/// characters, which neither allows, become spaces.
std::string escape(std::string_view text);

/// A coordinate: at most two decimals, no trailing zeros, never "-0". What is no number is 0.
std::string coordinate(double value);

/// At most `most` characters (of UTF-8), the last an ellipsis where some are left out.
std::string shorten(std::string_view text, std::size_t most);

/// Characters, not bytes, of UTF-8.
std::size_t width_of(std::string_view text);

}  // namespace taxon::report
