#pragma once

#include <string>

#include "report/chart.h"

namespace taxon::report {

/// The rectangle inside the axes, in pixels.
struct PlotArea {
  double left = 0, top = 0, right = 0, bottom = 0;
};

/// What all charts share: the element with its title and description, axes, grid and names.
struct ChartFrame {
  std::string id, title, description;
  double width = 0, height = 0;
};
/// The element's beginning; `</svg>` ends it.
std::string begin_svg(const ChartFrame& frame);

/// Grid lines, ticks and the name of an axis whose scale is in pixels; its values are in display units.
std::string horizontal_axis(const PlotArea& plot, const Scale& scale, const std::string& name);
std::string vertical_axis(const PlotArea& plot, const Scale& scale, const std::string& name);

/// About as wide as the text is in the chart's letters.
double text_width(const std::string& text);

}  // namespace taxon::report
