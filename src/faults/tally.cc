#include "faults/tally.h"

#include <fmt/format.h>

#include "base/time.h"

namespace taxon::faults {
namespace {

constexpr Ending kEndings[] = {Ending::Complete, Ending::Survived, Ending::Lost, Ending::Stuck};

std::uint64_t count_of(const EndingCounts& counts, Ending ending) {
  const auto found = counts.endings.find(ending);
  return found == counts.endings.end() ? 0 : found->second;
}

}  // namespace

void EndingCounts::add(const Trial& trial) {
  ++trials;
  findings += !trial.findings.empty();
  resumed += trial.resumed;
  ++endings[trial.ending];
}

void Tally::add(const Trial& trial) {
  all.add(trial);
  messages += trial.seen.report.messages;
  seconds += to_seconds(trial.seen.report.time);
  by_setting[fmt::format("ranks={}", trial.shape.ranks)].add(trial);
  by_setting[fmt::format("layout={}", trial.shape.layout)].add(trial);
  for (const std::string& setting : trial.shape.settings) by_setting[setting].add(trial);
}

std::string table_of(const Tally& tally) {
  std::string table = "| setting | trials |";
  for (const Ending ending : kEndings) table += fmt::format(" {} |", to_string(ending));
  table += " resumed to the end | findings |\n|---|---|";
  for (std::size_t i = 0; i < std::size(kEndings) + 2; ++i) table += "---|";
  table += "\n";
  for (const auto& [setting, counts] : tally.by_setting) {
    table += fmt::format("| `{}` | {} |", setting, counts.trials);
    for (const Ending ending : kEndings) table += fmt::format(" {} |", count_of(counts, ending));
    table += fmt::format(" {} | {} |\n", counts.resumed, counts.findings);
  }
  return table;
}

}  // namespace taxon::faults
