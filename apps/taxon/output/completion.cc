#include "apps/taxon/output/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "parallel/network.h"
#include "program/schedule.h"

namespace taxon::app {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& program) {
  return program.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  std::vector<const CLI::Option*> options;
  for (const CLI::Option* option : app.get_options())
    if (!option->get_positional()) options.push_back(option);
  return options;
}

/// "--workers", and "-h" where there is a short form.
std::vector<std::string> spellings(const CLI::Option& option) {
  std::vector<std::string> all;
  for (const std::string& name : option.get_snames()) all.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) all.push_back("--" + name);
  return all;
}

/// As a word of its own: a flag may have one behind an equals sign.
bool takes_value(const CLI::Option& option) { return option.get_items_expected_min() > 0; }

bool takes_recipes(const CLI::App& command) {
  const auto all = command.get_options();
  return std::any_of(all.begin(), all.end(), [](const CLI::Option* option) {
    return option->get_positional() && option->get_type_name() == "RECIPE";
  });
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

/// The last words of `command` that are no options: what its positional takes.
std::vector<std::string> choices_of(const CLI::App& command, const CLI::App& program) {
  std::vector<std::string> names;
  if (command.get_name() == "completion")
    for (const TextRow& row : text_table()) names.emplace_back(row.name);
  if (command.get_name() == "schedule")
    for (const program::ScheduleRow& row : program::schedule_table()) names.emplace_back(row.name);
  if (command.get_name() == "parallel")
    for (const parallel::NetworkRow& row : parallel::network_table()) names.emplace_back(row.name);
  if (&command == &program)
    for (const CLI::App* each : commands_of(program)) names.push_back(each->get_name());
  return names;
}

std::string words_of(const CLI::App& app, const CLI::App& program) {
  std::vector<std::string> words = choices_of(app, program);
  for (const CLI::Option* option : options_of(app))
    for (const std::string& word : spellings(*option)) words.push_back(word);
  return fmt::format("{}", fmt::join(words, " "));
}

constexpr const char* kRecipeNames = "taxon recipes 2>/dev/null | cut -d' ' -f1";

std::string bash(const CLI::App& program) {
  std::string cases, recipes, values;
  for (const CLI::App* command : commands_of(program)) {
    cases += fmt::format("    {}) words=\"{}\" ;;\n", command->get_name(), words_of(*command, program));
    if (takes_recipes(*command)) recipes += (recipes.empty() ? "" : "|") + command->get_name();
    for (const CLI::Option* option : options_of(*command))
      if (takes_value(*option))
        for (const std::string& word : spellings(*option))
          if (("|" + values + "|").find("|" + word + "|") == std::string::npos)
            values += (values.empty() ? "" : "|") + word;
  }
  return fmt::format(
      "# bash completion of taxon, made by `taxon completion bash`\n"
      "_taxon() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command= words=\n"
      "  [[ $COMP_CWORD -gt 1 ]] && command=${{COMP_WORDS[1]}}\n"
      "  case $before in\n"
      "    {}) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n"
      "  esac\n"
      "  case $command in\n"
      "    '') words=\"{}\" ;;\n"
      "{}"
      "  esac\n"
      "  case $command in\n"
      "    {}) [[ $word == -* ]] || words+=\" $({})\" ;;\n"
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
      "  [[ $word == -* || -z $command ]] || COMPREPLY+=($(compgen -f -- \"$word\"))\n"
      "}}\n"
      "complete -o filenames -F _taxon taxon\n",
      values, words_of(program, program), cases, recipes, kRecipeNames);
}

/// In single quotes of a shell, inside brackets of zsh's _arguments.
std::string zsh_text(std::string text) {
  for (const char* special : {"\\", "[", "]", ":"})
    text = replaced(text, special, std::string("\\") + special);
  return replaced(text, "'", "'\\''");
}

std::string zsh(const CLI::App& program) {
  std::string commands, cases;
  for (const CLI::App* command : commands_of(program)) {
    commands += fmt::format("    '{}:{}'\n", command->get_name(), zsh_text(command->get_description()));
    cases += fmt::format("    {})\n      _arguments", command->get_name());
    for (const CLI::Option* option : options_of(*command))
      for (const std::string& word : spellings(*option))
        cases += fmt::format(" \\\n        '*{}[{}]{}'", word, zsh_text(option->get_description()),
                             takes_value(*option) ? ":value:_files" : "");
    const std::vector<std::string> choices = choices_of(*command, program);
    if (takes_recipes(*command))
      cases += " \\\n        '*:recipe:_taxon_recipes'";
    else if (!choices.empty())
      cases += fmt::format(" \\\n        '*:word:({})'", fmt::join(choices, " "));
    cases += " ;;\n";
  }
  return fmt::format(
      "#compdef taxon\n"
      "# zsh completion of taxon, made by `taxon completion zsh`\n"
      "_taxon_recipes() {{\n"
      "  compadd -- ${{(f)\"$({})\"}}\n"
      "  _files -g '*.yaml'\n"
      "}}\n"
      "_taxon() {{\n"
      "  local -a commands=(\n{}  )\n"
      "  if (( CURRENT == 2 )); then\n"
      "    _describe command commands\n"
      "    _arguments '--version[Print the version]' '--help[Print help]'\n"
      "    return\n"
      "  fi\n"
      "  shift words; (( CURRENT-- ))\n"
      "  case $words[1] in\n{}  esac\n"
      "}}\n"
      "_taxon \"$@\"\n",
      kRecipeNames, commands, cases);
}

std::string fish_text(std::string text) {
  return replaced(replaced(std::move(text), "\\", "\\\\"), "'", "\\'");
}

std::string fish_options(const CLI::App& app, const std::string& condition) {
  std::string text;
  for (const CLI::Option* option : options_of(app)) {
    text += fmt::format("complete -c taxon -n '{}'", condition);
    for (const std::string& name : option->get_snames()) text += " -s " + name;
    for (const std::string& name : option->get_lnames()) text += " -l " + name;
    text +=
        fmt::format("{} -d '{}'\n", takes_value(*option) ? " -r" : "", fish_text(option->get_description()));
  }
  return text;
}

std::string fish(const CLI::App& program) {
  std::string text = "# fish completion of taxon, made by `taxon completion fish`\n";
  text += fish_options(program, "__fish_use_subcommand");
  for (const CLI::App* command : commands_of(program)) {
    const std::string chosen = "__fish_seen_subcommand_from " + command->get_name();
    text += fmt::format("complete -c taxon -f -n __fish_use_subcommand -a {} -d '{}'\n", command->get_name(),
                        fish_text(command->get_description()));
    text += fish_options(*command, chosen);
    if (takes_recipes(*command))
      text += fmt::format("complete -c taxon -n '{}' -a '({})'\n", chosen, fish_text(kRecipeNames));
    else if (const auto choices = choices_of(*command, program); !choices.empty())
      text += fmt::format("complete -c taxon -f -n '{}' -a '{}'\n", chosen, fmt::join(choices, " "));
  }
  return text;
}

// ---- the manual page

/// Lines that begin with a dot or an apostrophe are requests, hyphens may be broken, backslashes escape.
std::string roff(std::string text) {
  text = replaced(replaced(std::move(text), "\\", "\\e"), "-", "\\-");
  return text.starts_with('.') || text.starts_with('\'') ? "\\&" + text : text;
}

std::string manual_options(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : options_of(app)) {
    const std::string value = takes_value(*option) ? " \\fI" + roff(option->get_type_name()) + "\\fR" : "";
    text +=
        fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", roff(fmt::format("{}", fmt::join(spellings(*option), ", "))),
                    value, roff(option->get_description()));
  }
  return text;
}

std::string manual(const CLI::App& program) {
  std::string text = fmt::format(
      ".TH TAXON 1\n.SH NAME\ntaxon \\- {}\n.SH SYNOPSIS\n.B taxon\n\\fICOMMAND\\fR [\\fIOPTION\\fR...]\n"
      ".SH DESCRIPTION\nTrains networks on many hosts by recipes, among them those of published systems, and "
      "measures, simulates and compares them. A recipe is a file in YAML, or the name of one that comes with "
      "the "
      "program "
      "(\\fBtaxon recipes\\fR lists them).\n.SH OPTIONS\n",
      roff("distributed deep-learning training, published systems as recipes"));
  text += manual_options(program) + ".SH COMMANDS\n";
  for (const CLI::App* command : commands_of(program)) {
    text += fmt::format(".SS taxon {}", command->get_name());
    for (const CLI::Option* option : command->get_options())
      if (option->get_positional()) text += " " + roff(option->get_name());
    text += fmt::format("\n{}.\n{}", roff(command->get_description()), manual_options(*command));
  }
  text +=
      ".SH EXIT STATUS\n0 on success; 2 for wrong usage, and one code for each other kind of failure, which "
      "the "
      "program's documentation lists in docs/errors.md.\n"
      ".SH EXAMPLES\n.nf\ntaxon train fashion\\-mnist\\-cnn \\-\\-workers 2\n"
      "taxon train horovod \\-\\-workers 4 \\-\\-dry\\-run\ntaxon doctor\n.fi\n";
  return text;
}

constexpr TextRow kTexts[] = {
    {"bash", bash},
    {"zsh", zsh},
    {"fish", fish},
    {"man", manual},
};

}  // namespace

std::span<const TextRow> text_table() { return kTexts; }

}  // namespace taxon::app
