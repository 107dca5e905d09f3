#include "apps/taxon/output/usage.h"

#include <fmt/format.h>

#include "plan/nearest.h"

namespace taxon::app {
namespace {

std::string without_value(const std::string& word) { return word.substr(0, word.find('=')); }

/// The command that the words name, or the program.
const CLI::App& command_of(const CLI::App& program) {
  const auto parsed = program.get_subcommands();
  return parsed.empty() ? program : *parsed.front();
}

std::string unknown_command(const CLI::App& program, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command :
       program.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); }))
    names.push_back(command->get_name());
  const auto meant = plan::nearest(word, names);
  if (meant) return fmt::format("there is no command \"{}\"{}", word, plan::suggestion(meant));
  return fmt::format("there is no command \"{}\"; there are {}", word, fmt::join(names, ", "));
}

std::string unexpected(const CLI::App& command, const std::string& word) {
  if (!word.starts_with('-')) return fmt::format("\"{}\" is one word too many", word);
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return fmt::format("there is no option {}{}", without_value(word),
                     plan::suggestion(plan::nearest(without_value(word), names)));
}

}  // namespace

std::string sentence_of(const CLI::App& program, const std::vector<std::string>& words,
                        const CLI::ParseError& error) {
  const CLI::App& command = command_of(program);
  if (&command == &program && words.size() < 2) return "a command is missing; `taxon --help` lists them";
  if (&command == &program && !words[1].starts_with('-')) return unknown_command(program, words[1]);
  std::string sentence = error.what();
  // What follows a launch's own words is train's.
  if (const auto left = command.remaining(); !left.empty() && !command.get_prefix_command())
    sentence = unexpected(command, left.front());
  const std::string name = &command == &program ? "" : command.get_name() + " ";
  return fmt::format("{} (see taxon {}--help)", sentence, name);
}

}  // namespace taxon::app
