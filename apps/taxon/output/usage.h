#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace taxon::app {

/// What is wrong with the program's words and what may have been meant, without CLI11's exception names: a
/// sentence for the line of a usage error. `words` are argv.
std::string sentence_of(const CLI::App& program, const std::vector<std::string>& words,
                        const CLI::ParseError& error);

}  // namespace taxon::app
