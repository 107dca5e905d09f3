#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace taxon::plan {

/// Letters to insert, delete, replace or swap with a neighbour to turn `a` into `b` (optimal string
/// alignment).
int edit_distance(std::string_view a, std::string_view b);

/// The candidate that `word` was probably meant to be, if one is near enough to say so: at most a third of
/// its letters differ. The first of equally near ones.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

/// The same for dotted keys, where the right last part in the wrong section is near too.
std::optional<std::string> nearest_key(std::string_view key, std::span<const std::string> candidates);

/// "; did you mean x?" or "".
std::string suggestion(const std::optional<std::string>& nearest);

}  // namespace taxon::plan
