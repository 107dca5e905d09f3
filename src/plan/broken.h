#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace taxon::plan {

/// What a plan says instead of what a rule of the legality table asks for; nothing where the rule holds.
using Violation = std::optional<std::string>;

Violation unless(bool holds, std::string instead);
/// Broken unless `name` is one of `known`, or `also`; with a suggestion. Nothing is known to be wrong where
/// `known` is empty.
Violation known_name(const std::string& name, std::vector<std::string> known, std::string_view also = "");

}  // namespace taxon::plan
