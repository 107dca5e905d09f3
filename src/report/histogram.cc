#include <fmt/format.h>

#include <algorithm>

#include "report/chart.h"
#include "report/chart_frame.h"
#include "report/markup.h"
#include "report/series_style.h"

namespace taxon::report {
namespace {

constexpr double kHistogramWidth = 330, kHistogramHeight = 220;

}  // namespace

std::string to_svg(const Histogram& chart) {
  const PlotArea plot{48, 44, kHistogramWidth - 12, kHistogramHeight - 46};
  double all = 0, most = 0;
  for (double count : chart.counts) all += count, most = std::max(most, count);
  if (all <= 0) all = 1;
  Scale y = linear_scale(0, most > 0 ? most / all * 100 : 100, 4);
  y.from = plot.bottom;
  y.to = plot.top;
  const auto bins = static_cast<double>(std::max<std::size_t>(1, chart.counts.size()));
  Scale x;
  x.least = -0.5;
  x.most = bins - 0.5;
  x.from = plot.left;
  x.to = plot.right;
  const std::string mean = chart.mean ? fmt::format(", mean {:.2f}", *chart.mean) : "";
  std::string svg = begin_svg(
      {chart.id, chart.title, fmt::format("{}{}.", chart.title, mean), kHistogramWidth, kHistogramHeight});
  svg += fmt::format("<text class=\"heading\" x=\"4\" y=\"14\">{}{}</text>", escape(shorten(chart.title, 28)),
                     mean);
  svg += vertical_axis(plot, y, "share, %");
  svg += fmt::format("<g class=\"{}\">", series_style(chart.series).class_name());
  for (std::size_t i = 0; i < chart.counts.size(); ++i) {
    const auto value = static_cast<double>(i);
    const double from = x.at(value - 0.42), to = x.at(value + 0.42);
    const double top = y.at(chart.counts[i] / all * 100);
    svg += fmt::format(
        "<rect class=\"fill\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}: {:.3g} "
        "%</title></rect>",
        coordinate(from), coordinate(top), coordinate(to - from), coordinate(plot.bottom - top), i,
        chart.counts[i] / all * 100);
  }
  svg += "</g>";
  // Whole numbers only, as many as there is room for.
  const auto every = static_cast<std::size_t>(std::max(1.0, bins / 10));
  for (std::size_t i = 0; i < chart.counts.size(); i += every)
    svg += fmt::format("<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                       coordinate(x.at(static_cast<double>(i))), coordinate(plot.bottom + 16), i);
  svg += fmt::format("<path class=\"axis\" d=\"M{} {}H{}\"/>", coordinate(plot.left), coordinate(plot.bottom),
                     coordinate(plot.right));
  svg += fmt::format("<text class=\"label\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                     coordinate((plot.left + plot.right) / 2), coordinate(plot.bottom + 35),
                     escape(chart.x.title));
  return svg + "</svg>";
}

}  // namespace taxon::report
