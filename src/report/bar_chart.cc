#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/chart.h"
#include "report/chart_frame.h"
#include "report/markup.h"

namespace taxon::report {
namespace {

constexpr double kWidth = 1000, kRow = 24, kThick = 15, kTop = 26, kBottom = 46;
constexpr std::size_t kLongName = 26;

double positive(double value) { return std::isfinite(value) ? std::max(0.0, value) : 0; }

double sum_of(const BarChart::Bar& bar) {
  double sum = 0;
  for (double value : bar.values) sum += positive(value);
  return sum;
}

std::string legend_of(const BarChart& chart, const PlotArea& plot) {
  std::string svg;
  double x = plot.left;
  for (std::size_t p = 0; p < chart.parts.size(); ++p) {
    svg += fmt::format("<rect class=\"bar p{}\" x=\"{}\" y=\"5\" width=\"11\" height=\"11\"/>", p,
                       coordinate(x));
    svg += fmt::format("<text class=\"name\" x=\"{}\" y=\"14.5\">{}</text>", coordinate(x + 16),
                       escape(chart.parts[p]));
    x += text_width(chart.parts[p]) + 36;
  }
  return svg;
}

/// The chart in the unit of its longest bar.
BarChart in_display_units(BarChart chart, const DisplayUnit& unit) {
  for (BarChart::Bar& bar : chart.bars)
    for (double& value : bar.values) value = positive(value) / unit.factor;
  return chart;
}

std::string bar_of(const BarChart& chart, const BarChart::Bar& bar, const Scale& scale, double top) {
  std::string svg = fmt::format(
      "<text class=\"name\" x=\"{}\" y=\"{}\" dy=\"0.33em\" text-anchor=\"end\">{}</text>",
      coordinate(scale.from - 8), coordinate(top + kThick / 2), escape(shorten(bar.label, kLongName)));
  double done = 0;
  for (std::size_t p = 0; p < bar.values.size(); ++p) {
    const double from = scale.at(done), to = scale.at(done + bar.values[p]);
    const std::string part = p < chart.parts.size() ? chart.parts[p] : "";
    svg += fmt::format(
        "<rect class=\"bar p{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}: {} "
        "{:.4g}</title></rect>",
        p, coordinate(from), coordinate(top), coordinate(to - from), coordinate(kThick), escape(bar.label),
        escape(part), bar.values[p]);
    done += bar.values[p];
  }
  return svg + fmt::format("<text class=\"tick\" x=\"{}\" y=\"{}\" dy=\"0.33em\">{:.3g}</text>",
                           coordinate(scale.at(done) + 6), coordinate(top + kThick / 2), done);
}

}  // namespace

std::string to_svg(const BarChart& chart) {
  double most = 0;
  for (const BarChart::Bar& bar : chart.bars) most = std::max(most, sum_of(bar));
  const DisplayUnit unit = unit_for(chart.x.quantity, most);
  const BarChart shown = in_display_units(chart, unit);
  double names = 0;
  std::string description = chart.title + ".";
  for (const BarChart::Bar& bar : shown.bars) {
    names = std::max(names, text_width(shorten(bar.label, kLongName)));
    description += fmt::format(" {}: {:.3g} {}.", bar.label, sum_of(bar), unit.name);
  }
  const double bottom = kTop + kRow * static_cast<double>(shown.bars.size()) + 4;
  const PlotArea plot{names + 16, kTop, kWidth - 52, bottom};
  Scale scale = linear_scale(0, most / unit.factor);
  if (most > 0) scale.most = most / unit.factor;  // bars use all of the width
  scale.from = plot.left;
  scale.to = plot.right;
  std::string svg = begin_svg({chart.id, chart.title, description, kWidth, bottom + kBottom});
  svg += legend_of(chart, plot) + horizontal_axis(plot, scale, with_unit(chart.x.title, unit));
  for (std::size_t i = 0; i < shown.bars.size(); ++i)
    svg += bar_of(shown, shown.bars[i], scale, kTop + 6 + kRow * static_cast<double>(i));
  return svg + "</svg>";
}

}  // namespace taxon::report
