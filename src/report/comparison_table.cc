#include "report/comparison_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "report/markup.h"
#include "report/scale.h"

namespace taxon::report {
namespace {

using Group = ComparisonColumn::Group;
using Better = ComparisonColumn::Better;

/// The column that each comparison names otherwise.
constexpr std::string_view kScore = "score";

std::vector<double> of_runs(const System& system, double SystemRun::*member) {
  std::vector<double> values;
  for (const SystemRun& run : system.runs) values.push_back(run.*member);
  return values;
}

std::string with_error(const Estimate& estimate, double factor, int decimals, std::string_view unit) {
  std::string text = fmt::format("{:.{}f}", estimate.mean / factor, decimals);
  if (estimate.count > 1) text += fmt::format(" ± {:.{}f}", estimate.error / factor, decimals);
  return text + std::string(unit);
}

/// Three significant digits, and the unit that suits the mean.
std::string in_unit(const Estimate& estimate, Quantity quantity) {
  const DisplayUnit unit = unit_for(quantity, estimate.mean);
  const double shown = std::abs(estimate.mean / unit.factor);
  const int decimals = shown >= 100 || quantity == Quantity::Samples ? 0 : shown >= 10 ? 1 : 2;
  return with_error(estimate, unit.factor, decimals, unit.name.empty() ? "" : " " + unit.name);
}

template <class Format>
Cell number_cell(const std::vector<double>& values, Format&& format) {
  const auto found = estimate(values);
  return found ? Cell{format(*found), found} : Cell{};
}

Cell seeds(const Comparison&, const System& system) {
  if (system.runs.size() + system.failures.size() < 2) return {};
  const auto count = static_cast<double>(system.runs.size());
  return {fmt::format("{}", count), Estimate{count, 0, 1}};
}
Cell parallelism(const Comparison&, const System& system) { return {system.axes.parallelism, {}}; }
Cell optimisation(const Comparison&, const System& system) { return {system.axes.optimisation, {}}; }
Cell scheduling(const Comparison&, const System& system) { return {system.axes.scheduling, {}}; }
Cell communication(const Comparison&, const System& system) { return {system.axes.communication, {}}; }
Cell compression(const Comparison&, const System& system) { return {system.axes.compression, {}}; }

Cell score(const Comparison& comparison, const System& system) {
  const bool is_share = comparison.score.unit == ScoreKind::Unit::Share;
  return number_cell(of_runs(system, &SystemRun::score), [is_share](const Estimate& e) {
    return is_share ? with_error(e, 0.01, 2, " %") : with_error(e, 1, 4, "");
  });
}
Cell loss(const Comparison&, const System& system) {
  return number_cell(of_runs(system, &SystemRun::loss),
                     [](const Estimate& e) { return with_error(e, 1, 4, ""); });
}

/// What it took to reach the target; says so where not all runs did.
Cell to_target(const Comparison& comparison, const System& system, double CurvePoint::*member,
               Quantity quantity) {
  if (!comparison.target_accuracy || system.runs.empty()) return {};
  std::vector<double> values;
  for (const SystemRun& run : system.runs)
    if (const CurvePoint* point = first_reaching(run, *comparison.target_accuracy))
      values.push_back(point->*member);
  Cell cell = number_cell(values, [&](const Estimate& e) { return in_unit(e, quantity); });
  if (values.empty()) cell.text = "not reached";
  if (!values.empty() && values.size() < system.runs.size())
    cell.text += fmt::format(" ({} of {} seeds)", values.size(), system.runs.size());
  return cell;
}
Cell time_to_target(const Comparison& comparison, const System& system) {
  return to_target(comparison, system, &CurvePoint::seconds, Quantity::Seconds);
}
Cell bytes_to_target(const Comparison& comparison, const System& system) {
  return to_target(comparison, system, &CurvePoint::bytes, Quantity::Bytes);
}

Cell samples_per_second(const Comparison&, const System& system) {
  return number_cell(of_runs(system, &SystemRun::samples_per_second),
                     [](const Estimate& e) { return with_error(e, 1, 0, ""); });
}
Cell step(const Comparison&, const System& system) {
  return number_cell(of_runs(system, &SystemRun::seconds_per_step),
                     [](const Estimate& e) { return in_unit(e, Quantity::Seconds); });
}
Cell exposed(const Comparison&, const System& system) {
  return number_cell(of_runs(system, &SystemRun::exposed_seconds),
                     [](const Estimate& e) { return in_unit(e, Quantity::Seconds); });
}
Cell bytes(const Comparison&, const System& system) {
  return number_cell(of_runs(system, &SystemRun::bytes_per_step),
                     [](const Estimate& e) { return in_unit(e, Quantity::Bytes); });
}

std::vector<double> of_codecs(const System& system, double CodecWorth::*member) {
  std::vector<double> values;
  for (const SystemRun& run : system.runs)
    if (run.codecs) values.push_back((*run.codecs).*member);
  return values;
}
Cell ratio(const Comparison&, const System& system) {
  return number_cell(of_codecs(system, &CodecWorth::ratio),
                     [](const Estimate& e) { return with_error(e, 1, 1, ""); });
}
Cell codec(const Comparison&, const System& system) {
  return number_cell(of_codecs(system, &CodecWorth::seconds),
                     [](const Estimate& e) { return in_unit(e, Quantity::Seconds); });
}

Cell stale(const System& system, double Staleness::*member, int decimals) {
  std::vector<double> values;
  for (const SystemRun& run : system.runs)
    if (run.staleness) values.push_back((*run.staleness).*member);
  return number_cell(values, [&](const Estimate& e) { return with_error(e, 1, decimals, ""); });
}
Cell mean_staleness(const Comparison&, const System& system) { return stale(system, &Staleness::mean, 2); }
Cell max_staleness(const Comparison&, const System& system) {
  // The largest of all runs, not their mean.
  std::optional<double> most;
  for (const SystemRun& run : system.runs)
    if (run.staleness && std::isfinite(run.staleness->max))
      most = std::max(most.value_or(0), run.staleness->max);
  return most ? Cell{fmt::format("{:.0f}", *most), Estimate{*most, 0, 1}} : Cell{};
}

constexpr ComparisonColumn kColumns[] = {
    {"parallelism", "parallelism", Group::Place, Better::Neither, parallelism},
    {"optimisation", "optimisation", Group::Place, Better::Neither, optimisation},
    {"scheduling", "scheduling", Group::Place, Better::Neither, scheduling},
    {"communication", "communication", Group::Place, Better::Neither, communication},
    {"compression", "compression", Group::Place, Better::Neither, compression},
    {"runs", "runs", Group::Result, Better::Neither, seeds},
    {kScore, kScore, Group::Result, Better::AsScored, score},
    {"loss", "loss", Group::Result, Better::Less, loss},
    {"seconds_to_target", "time to target", Group::Result, Better::Less, time_to_target},
    {"bytes_to_target", "sent to target", Group::Result, Better::Less, bytes_to_target},
    {"samples_per_second", "samples/s", Group::Result, Better::More, samples_per_second},
    {"seconds_per_step", "step", Group::Result, Better::Less, step},
    {"exposed_seconds_per_step", "exposed comm.", Group::Result, Better::Less, exposed},
    {"bytes_per_step", "sent/step", Group::Result, Better::Less, bytes},
    {"compression_ratio", "ratio", Group::Result, Better::Neither, ratio},
    {"codec_seconds_per_step", "codec", Group::Result, Better::Less, codec},
    {"staleness_mean", "mean staleness", Group::Result, Better::Neither, mean_staleness},
    {"staleness_max", "max staleness", Group::Result, Better::Neither, max_staleness},
};

std::string pad(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, width_of(text)), ' ');
}

/// Rows of equal length, as columns; the first is the heading.
std::string lay_out(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width_of(row[c]));
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) line += pad(row[c], widths[c] + 2);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

bool all_equal(const Comparison& comparison, const ComparisonColumn& column) {
  return std::all_of(comparison.systems.begin(), comparison.systems.end(), [&](const System& system) {
    return column.cell(comparison, system).text == column.cell(comparison, comparison.systems.front()).text;
  });
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string plain(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }

}  // namespace

std::span<const ComparisonColumn> comparison_columns() { return kColumns; }

std::string title_in(const Comparison& comparison, const ComparisonColumn& column) {
  return column.better == Better::AsScored ? title_of(comparison.score) : std::string(column.title);
}

std::vector<const ComparisonColumn*> used_columns(const Comparison& comparison, Group group) {
  std::vector<const ComparisonColumn*> used;
  for (const ComparisonColumn& column : kColumns)
    if (column.group == group &&
        std::any_of(comparison.systems.begin(), comparison.systems.end(),
                    [&](const System& system) { return !column.cell(comparison, system).text.empty(); }))
      used.push_back(&column);
  return used;
}

int best_system(const Comparison& comparison, const ComparisonColumn& column) {
  int best = -1;
  double found = 0;
  if (column.better == Better::Neither || comparison.systems.size() < 2) return -1;
  for (std::size_t s = 0; s < comparison.systems.size(); ++s) {
    const Cell cell = column.cell(comparison, comparison.systems[s]);
    if (!cell.number) continue;
    const bool more = column.better == Better::AsScored ? comparison.score.better == ScoreKind::Better::More
                                                        : column.better == Better::More;
    const double value = cell.number->mean * (more ? 1 : -1);
    if (best < 0 || value > found) best = static_cast<int>(s), found = value;
  }
  return best;
}

std::string to_text(const Comparison& comparison) {
  std::string text;
  std::vector<const ComparisonColumn*> columns;
  for (const ComparisonColumn* column : used_columns(comparison, Group::Place)) {
    if (comparison.systems.size() > 1 && all_equal(comparison, *column))
      text += fmt::format("{}{}: {}", text.empty() ? "all: " : "; ", column->title,
                          column->cell(comparison, comparison.systems.front()).text);
    else
      columns.push_back(column);
  }
  if (!text.empty()) text += "\n";
  for (const ComparisonColumn* column : used_columns(comparison, Group::Result)) columns.push_back(column);
  std::vector<std::vector<std::string>> rows(1, {"system"});
  for (const ComparisonColumn* column : columns) rows.front().push_back(title_in(comparison, *column));
  std::string failures;
  for (const System& system : comparison.systems) {
    rows.push_back({system.name});
    for (const ComparisonColumn* column : columns) {
      const Cell cell = column->cell(comparison, system);
      rows.back().push_back(cell.text.empty() ? "-" : cell.text);
    }
    for (const std::string& failure : system.failures)
      failures += fmt::format("{} failed: {}\n", system.name, failure);
  }
  text += lay_out(rows) + failures;
  text += fmt::format("times and bytes are {}\n", to_string(comparison.origin));
  return text;
}

std::string to_csv(const Comparison& comparison) {
  std::string text = "system";
  for (const ComparisonColumn& column : kColumns) {
    const std::string_view key = column.better == Better::AsScored ? comparison.score.name : column.key;
    text += fmt::format(",{}", key);
    if (column.group == Group::Result) text += fmt::format(",{}_error", key);
  }
  text += ",origin,failure\n";
  for (const System& system : comparison.systems) {
    text += csv_field(system.name);
    for (const ComparisonColumn& column : kColumns) {
      const Cell cell = column.cell(comparison, system);
      if (column.group == Group::Place)
        text += "," + csv_field(cell.text);
      else
        text +=
            cell.number ? fmt::format(",{},{}", plain(cell.number->mean), plain(cell.number->error)) : ",,";
    }
    text += fmt::format(",{},{}\n", to_string(comparison.origin),
                        csv_field(fmt::format("{}", fmt::join(system.failures, "; "))));
  }
  return text;
}

std::string curves_csv(const Comparison& comparison) {
  std::string text = fmt::format("system,seed,samples,seconds,bytes,loss,{}\n", comparison.score.name);
  for (const System& system : comparison.systems)
    for (const SystemRun& run : system.runs)
      for (const CurvePoint& point : run.curve)
        text += fmt::format("{},{},{},{},{},{},{}\n", csv_field(system.name), run.seed, plain(point.samples),
                            plain(point.seconds), plain(point.bytes), plain(point.loss), plain(point.score));
  return text;
}

}  // namespace taxon::report
