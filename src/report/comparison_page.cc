#include "report/comparison_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/chart.h"
#include "report/comparison_table.h"
#include "report/markup.h"
#include "report/page.h"
#include "report/series_style.h"
#include "report/timeline.h"

namespace taxon::report {
namespace {

using Group = ComparisonColumn::Group;

constexpr int kTimelineSteps = 3;
constexpr double kLongestTimeline = 4;  // times the shortest: beyond it a timeline is cut

std::string figure(const std::string& svg) { return "<figure>" + svg + "</figure>\n"; }

std::string section(const std::string& heading, const std::string& text, const std::string& body) {
  return fmt::format("<section>\n<h2>{}</h2>\n<p class=\"soft\">{}</p>\n{}</section>\n", escape(heading),
                     escape(text), body);
}

std::string header(const Comparison& comparison) {
  std::string html = fmt::format(
      "<header>\n<h1>{} side by side</h1>\n<p>{} Figures are <span class=\"origin\">{}</span>.</p>\n<dl>\n",
      comparison.systems.size() == 1 ? "One system" : fmt::format("{} systems", comparison.systems.size()),
      escape(comparison.subject), to_string(comparison.origin));
  for (const auto& [name, value] : comparison.facts)
    html += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(value));
  html += "</dl>\n";
  for (const std::string& note : comparison.notes) html += fmt::format("<p>{}</p>\n", escape(note));
  return html + "</header>\n";
}

// ---- tables

std::string heading_of(const Comparison& comparison, const ComparisonColumn& column) {
  return fmt::format("<th scope=\"col\"{}>{}</th>", column.group == Group::Result ? " class=\"number\"" : "",
                     escape(title_in(comparison, column)));
}

std::string cell_of(const Comparison& comparison, std::size_t system, const ComparisonColumn& column) {
  const Cell cell = column.cell(comparison, comparison.systems[system]);
  if (column.group == Group::Place) return fmt::format("<td>{}</td>", escape(cell.text));
  const bool best = best_system(comparison, column) == static_cast<int>(system);
  return fmt::format("<td class=\"number{}\" data-value=\"{}\">{}</td>", best ? " best" : "",
                     cell.number ? fmt::format("{}", cell.number->mean) : "",
                     cell.text.empty() ? "–" : escape(cell.text));
}

std::string table(const Comparison& comparison, Group group, const std::string& caption) {
  const auto columns = used_columns(comparison, group);
  std::string html = "<div class=\"wide\" tabindex=\"0\"><table class=\"sorts\">\n<caption><span>" +
                     escape(caption) + "</span></caption>\n<thead><tr><th scope=\"col\">system</th>";
  for (const ComparisonColumn* column : columns) html += heading_of(comparison, *column);
  html += "</tr></thead>\n<tbody>\n";
  for (std::size_t s = 0; s < comparison.systems.size(); ++s) {
    html += fmt::format("<tr><th scope=\"row\">{}</th>", escape(comparison.systems[s].name));
    for (const ComparisonColumn* column : columns) html += cell_of(comparison, s, *column);
    html += "</tr>\n";
  }
  return html + "</tbody>\n</table></div>\n";
}

std::string failures(const Comparison& comparison) {
  std::string html;
  for (const System& system : comparison.systems)
    for (const std::string& failure : system.failures)
      html += fmt::format("<tr><th scope=\"row\">{}</th><td class=\"failed\">{}</td></tr>\n",
                          escape(system.name), escape(failure));
  if (html.empty()) return "";
  return section("Failed runs", "The figures above are without these.",
                 "<div class=\"wide\"><table><thead><tr><th scope=\"col\">system</th><th "
                 "scope=\"col\">why</th></tr></thead>\n<tbody>\n" +
                     html + "</tbody></table></div>\n");
}

// ---- curves

std::string legend(const Comparison& comparison) {
  std::string html = "<ul class=\"legend\" aria-label=\"Systems\">\n";
  for (std::size_t s = 0; s < comparison.systems.size(); ++s)
    html += fmt::format("<li><button type=\"button\" value=\"{}\" aria-pressed=\"true\">{}{}</button></li>\n",
                        s, legend_swatch(static_cast<int>(s)), escape(comparison.systems[s].name));
  return html + "</ul>\n";
}

struct AgainstRow {
  const char* id;
  const char* words;
  const char* title;
  Quantity quantity;
  double CurvePoint::*member;
  ChartAxis axis() const { return {title, quantity}; }
};
constexpr AgainstRow kAgainst[] = {
    {"time", "time", "training time", Quantity::Seconds, &CurvePoint::seconds},
    {"samples", "samples", "samples", Quantity::Samples, &CurvePoint::samples},
    {"bytes", "bytes sent", "sent by a worker", Quantity::Bytes, &CurvePoint::bytes}};

struct MeasureRow {
  Measure measure;
  double CurvePoint::*member;
};
constexpr MeasureRow kMeasures[] = {{Measure::Score, &CurvePoint::score}, {Measure::Loss, &CurvePoint::loss}};

ScoreKind kind_of(const Comparison& comparison, const MeasureRow& measure) {
  if (measure.measure == Measure::Score) return comparison.score;
  return {"loss", ScoreKind::Unit::Number, ScoreKind::Better::Less};
}

LineChart curve_chart(const Comparison& comparison, const MeasureRow& measure, const AgainstRow& against) {
  const ScoreKind kind = kind_of(comparison, measure);
  const std::string title = title_of(kind);
  const bool is_share = kind.unit == ScoreKind::Unit::Share;
  LineChart chart{.id = fmt::format("{}-{}", kind.name, against.id),
                  .title = fmt::format("{} against {}", title, against.words),
                  .x = against.axis(),
                  .y = {title, is_share ? Quantity::Share : Quantity::Number}};
  for (std::size_t s = 0; s < comparison.systems.size(); ++s) {
    Curve curve{comparison.systems[s].name, static_cast<int>(s), {}};
    for (const MeanPoint& point : mean_curve(comparison.systems[s], measure.measure))
      curve.points.push_back({point.at.*against.member, point.at.*measure.member, point.error});
    if (!curve.points.empty()) chart.curves.push_back(std::move(curve));
  }
  if (kind.better == ScoreKind::Better::More) chart.begin = LineChart::Begin::LaterHalves;
  if (kind.better == ScoreKind::Better::More && comparison.target_accuracy)
    chart.goal = LineChart::Goal{*comparison.target_accuracy,
                                 fmt::format("target {:g} %", *comparison.target_accuracy * 100)};
  return chart;
}

bool has_several_runs(const Comparison& comparison) {
  return std::any_of(comparison.systems.begin(), comparison.systems.end(),
                     [](const System& system) { return system.runs.size() > 1; });
}

std::string curves(const Comparison& comparison) {
  auto has_curve = [](const System& system) { return !mean_curve(system, Measure::Loss).empty(); };
  if (std::none_of(comparison.systems.begin(), comparison.systems.end(), has_curve)) return "";
  std::string charts = legend(comparison) + "<div class=\"charts\">\n";
  for (const MeasureRow& measure : kMeasures)
    for (const AgainstRow& against : kAgainst)
      charts += figure(to_svg(curve_chart(comparison, measure, against)));
  const bool several = has_several_runs(comparison);
  return section(
      "Learning curves",
      std::string("Each mark is a test of the whole set that runs are evaluated on. Axes of shares begin "
                  "where the later half of the "
                  "tests does; what came below is cut off. Time is that of training, tests and "
                  "checkpoints left out; bytes are the payload that a worker sent, mean over the "
                  "workers.") +
          (several ? " Lines are means over the seeds, bands one standard error to each side." : ""),
      charts + "</div>\n");
}

// ---- where the time goes

double mean_of(const System& system, double SystemRun::*member) {
  std::vector<double> values;
  for (const SystemRun& run : system.runs) values.push_back(run.*member);
  const auto found = estimate(values);
  return found ? found->mean : 0;
}

std::string step_times(const Comparison& comparison) {
  BarChart chart{.id = "step-time",
                 .title = "Mean time of a step, by what it was spent on",
                 .x = {"time of a step", Quantity::Seconds},
                 .parts = {"computing", "exposed communication", "waiting for data"}};
  for (const System& system : comparison.systems)
    if (!system.runs.empty())
      chart.bars.push_back(
          {system.name,
           {mean_of(system, &SystemRun::compute_seconds), mean_of(system, &SystemRun::exposed_seconds),
            mean_of(system, &SystemRun::data_seconds)}});
  if (chart.bars.empty()) return "";
  return section("Where a step's time goes",
                 "Communication is exposed when neither forward, backward nor update runs beside it. Means "
                 "over the steps of rank 0.",
                 figure(to_svg(chart)));
}

// ---- staleness

std::vector<double> histogram_of(const System& system) {
  std::vector<double> sum;
  for (const SystemRun& run : system.runs) {
    if (!run.staleness) continue;
    const auto& counts = run.staleness->histogram;
    sum.resize(std::max(sum.size(), counts.size()));
    for (std::size_t i = 0; i < counts.size(); ++i) sum[i] += counts[i];
  }
  return sum;
}

std::string staleness(const Comparison& comparison) {
  std::string charts;
  for (std::size_t s = 0; s < comparison.systems.size(); ++s) {
    const System& system = comparison.systems[s];
    Histogram chart{.id = fmt::format("staleness-{}", s),
                    .title = system.name,
                    .x = {"staleness, updates"},
                    .series = static_cast<int>(s),
                    .counts = histogram_of(system)};
    if (chart.counts.empty()) continue;
    std::vector<double> means;
    for (const SystemRun& run : system.runs)
      if (run.staleness) means.push_back(run.staleness->mean);
    if (auto mean = estimate(means)) chart.mean = mean->mean;
    charts += figure(to_svg(chart));
  }
  if (charts.empty()) return "";
  return section("Staleness",
                 "Updates that others made to the weights between their reading and the use of the gradient "
                 "that was computed from them. Systems that are not shown have none.",
                 "<div class=\"charts small\">\n" + charts + "</div>\n");
}

// ---- timelines

std::string timelines(const Comparison& comparison) {
  std::vector<TimelineChart> shown;
  double shortest = INFINITY, longest = 0;
  for (std::size_t s = 0; s < comparison.systems.size(); ++s) {
    const System& system = comparison.systems[s];
    const StepWindow window = middle_steps(system.trace, kTimelineSteps);
    if (!(window.length() > 0)) continue;
    shortest = std::min(shortest, window.length());
    longest = std::max(longest, window.length());
    shown.push_back({.id = fmt::format("timeline-{}", s),
                     .title = system.name,
                     .spans = &system.trace,
                     .window = window});
  }
  if (shown.empty()) return "";
  std::string charts;
  for (TimelineChart& timeline : shown) {
    timeline.length_us = std::min(longest, kLongestTimeline * shortest);
    charts += figure(to_svg(timeline));
  }
  return section(
      "What the ranks do when",
      fmt::format("From the middle of a run, all to one scale: at least {} steps, or a part of them "
                  "where steps are much longer than the shortest system's.",
                  kTimelineSteps),
      charts);
}

}  // namespace

std::vector<Picture> to_pictures(const Comparison& comparison) {
  std::vector<Picture> pictures;
  for (const MeasureRow& measure : kMeasures)
    for (const AgainstRow& against : kAgainst) {
      const LineChart chart = curve_chart(comparison, measure, against);
      if (!chart.curves.empty()) pictures.push_back({chart.id, picture(to_svg(chart))});
    }
  return pictures;
}

std::string to_page(const Comparison& comparison) {
  std::string caption = "Sent: payload, mean over the workers. ";
  caption += comparison.origin == Origin::Simulated
                 ? "Steps on virtual time, their median."
                 : "Step: median. Samples/s: of the whole job, tests and checkpoints left out.";
  if (has_several_runs(comparison)) caption += " After ±: one standard error of the mean over the runs.";
  std::string body = header(comparison) + "<main>\n";
  body += section("Results", "Press a heading to sort by it. The best of a column is bold.",
                  table(comparison, Group::Result, caption));
  body += failures(comparison);
  body +=
      section("Place on the axes",
              "What is split; who owns parameters and optimiser state; when a worker may "
              "proceed; who talks to whom; what travels.",
              table(comparison, Group::Place, "One system a row, one question of the taxonomy a column."));
  body += curves(comparison) + step_times(comparison) + staleness(comparison) + timelines(comparison);
  return page("Taxon: systems side by side", body + "</main>\n");
}

}  // namespace taxon::report
