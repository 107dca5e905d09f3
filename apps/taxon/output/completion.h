#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>

namespace taxon::app {

/// A text that is made from the table of commands: what a shell completes words by, or the manual page.
struct TextRow {
  std::string_view name;
  std::string (*make)(const CLI::App& program);
};
/// bash, zsh, fish, man.
std::span<const TextRow> text_table();

}  // namespace taxon::app
