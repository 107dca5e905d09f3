#include "apps/taxon/commands/compare_facts.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <ctime>
#include <sstream>

#include "apps/taxon/output/version.h"
#include "base/units.h"
#include "launch/host.h"
#include "launch/host_memory.h"

namespace taxon::app {
namespace {

/// As a shell would read it again.
std::string quoted(const std::string& word) {
  auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_./=,:+@%").find(c) != std::string::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string out = "'";
  for (char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string command_of(std::vector<std::string> words) {
  if (!words.empty()) words.front() = "taxon";
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + quoted(word);
  return text;
}

std::string machine() {
  utsname system{};
  uname(&system);
  const auto memory = static_cast<double>(launch::host_memory().total);
  return fmt::format("{}, {:.3g} usable cores, {} memory, {} {}", launch::processor_name(),
                     launch::usable_cores(), format_bytes(memory), system.sysname, system.release);
}

std::string versions() {
  std::istringstream lines(version_text());
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    const auto colon = line.find(": ");
    if (colon == std::string::npos || line.ends_with(": none")) continue;
    text += (text.empty() ? "" : "; ") + line.substr(0, colon) + " " + line.substr(colon + 2);
  }
  return text;
}

std::string today() {
  const std::time_t now = static_cast<std::time_t>(launch::wall_clock());
  std::tm time{};
  gmtime_r(&now, &time);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d", &time);
  return text;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> facts_of(const CompareArguments& arguments,
                                                          const std::string& emulated) {
  std::vector<std::pair<std::string, std::string>> facts;
  facts.emplace_back("command", command_of(arguments.command_line));
  facts.emplace_back(arguments.simulate ? "simulated on" : "machine", machine());
  if (!emulated.empty()) facts.emplace_back("emulated hosts", emulated);
  if (arguments.simulate) facts.emplace_back("cluster", arguments.cluster);
  if (!arguments.profile.empty()) facts.emplace_back("profile", arguments.profile);
  facts.emplace_back("versions", versions());
  facts.emplace_back("date", today());
  return facts;
}

}  // namespace taxon::app
