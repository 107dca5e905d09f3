#include "report/chart_frame.h"

#include <fmt/format.h>

#include "report/markup.h"

namespace taxon::report {
namespace {

constexpr double kLetter = 6.3;  // mean width of 12 pixel letters

}  // namespace

double text_width(const std::string& text) { return static_cast<double>(width_of(text)) * kLetter; }

std::string begin_svg(const ChartFrame& frame) {
  return fmt::format(
      "<svg class=\"chart\" id=\"{0}\" viewBox=\"0 0 {1} {2}\" role=\"img\" aria-labelledby=\"{0}-title "
      "{0}-desc\"><title id=\"{0}-title\">{3}</title><desc id=\"{0}-desc\">{4}</desc>",
      escape(frame.id), coordinate(frame.width), coordinate(frame.height), escape(frame.title),
      escape(frame.description));
}

std::string horizontal_axis(const PlotArea& plot, const Scale& scale, const std::string& name) {
  std::string svg;
  double free_from = -1e9;  // labels that would touch the one before are left out
  for (const Tick& tick : ticks_of(scale)) {
    const double x = scale.at(tick.value), half = text_width(tick.label) / 2;
    svg += fmt::format("<path class=\"grid\" d=\"M{0} {1}V{2}\"/>", coordinate(x), coordinate(plot.top),
                       coordinate(plot.bottom));
    if (x - half < free_from) continue;
    free_from = x + half + 6;
    svg += fmt::format("<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                       coordinate(x), coordinate(plot.bottom + 16), escape(tick.label));
  }
  svg += fmt::format("<path class=\"axis\" d=\"M{} {}H{}\"/>", coordinate(plot.left), coordinate(plot.bottom),
                     coordinate(plot.right));
  return svg + fmt::format("<text class=\"label\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                           coordinate((plot.left + plot.right) / 2), coordinate(plot.bottom + 35),
                           escape(name));
}

std::string vertical_axis(const PlotArea& plot, const Scale& scale, const std::string& name) {
  std::string svg;
  for (const Tick& tick : ticks_of(scale)) {
    const std::string y = coordinate(scale.at(tick.value));
    svg += fmt::format("<path class=\"grid\" d=\"M{} {}H{}\"/>", coordinate(plot.left), y,
                       coordinate(plot.right));
    svg += fmt::format("<text class=\"tick\" x=\"{}\" y=\"{}\" dy=\"0.33em\" text-anchor=\"end\">{}</text>",
                       coordinate(plot.left - 7), y, escape(tick.label));
  }
  return svg + fmt::format("<text class=\"label\" x=\"{}\" y=\"{}\">{}</text>", coordinate(4),
                           coordinate(plot.top - 12), escape(name));
}

}  // namespace taxon::report
