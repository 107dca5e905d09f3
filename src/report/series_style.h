#pragma once

#include <string>

namespace taxon::report {

/// What tells one system from another in every chart, also without colours: the classes c0 to c6 that the
/// page paints (Okabe and Ito's palette, which colour-blind readers can tell apart), a dash pattern and a
/// marker. The first 35 differ in colour or dash, neighbours in all three.
struct SeriesStyle {
  int colour = 0;    // class "c<colour>"
  std::string dash;  // of stroke-dasharray; empty: solid
  int marker = 0;    // 0 to 3
  std::string class_name() const { return "c" + std::to_string(colour); }
};
SeriesStyle series_style(int index);

inline constexpr int kSeriesColours = 7;

/// The path of a marker around a point, about 6 pixels wide.
std::string marker_path(int marker, double x, double y);

/// A piece of line with its marker, as in a legend: an SVG element of 34 by 12 pixels.
std::string legend_swatch(int index);

}  // namespace taxon::report
