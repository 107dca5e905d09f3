#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/scale.h"

namespace taxon::report {

/// Charts as SVG elements that stand in a page. They are painted by the page's style (report/page.h): the
/// classes are axis, grid, tick, label, line, band, mark, lead, goal, bar and those of series_style(). What
/// is said aloud is in title and desc. Pure functions: data in, text out.

struct ChartAxis {
  std::string title;
  Quantity quantity = Quantity::Number;
};

struct ChartPoint {
  double x = 0, y = 0;
  double error = 0;  // half the height of the band around y
};

struct Curve {
  std::string label;
  int series = 0;  // of series_style()
  std::vector<ChartPoint> points;
};

/// Curves over one pair of axes. The horizontal one is logarithmic where curves end at very different
/// places; the vertical one says so where it does not begin at 0. Points that are no numbers are left out.
/// Curves are named at their ends, as far as there is room.
struct LineChart {
  std::string id;  // unique in the page
  std::string title;
  ChartAxis x, y;
  /// From where on values are shown. LaterHalves: from the lowest of the curves' later halves, so that curves
  /// which set out far below their ends have room to differ there; what lies below is cut off.
  enum class Begin { Lowest, LaterHalves } begin = Begin::Lowest;
  std::vector<Curve> curves;
  struct Goal {
    double y = 0;
    std::string label;
  };
  std::optional<Goal> goal;
};
std::string to_svg(const LineChart& chart);

/// Horizontal bars of several parts one after the other, the sum in words at the end.
struct BarChart {
  std::string id, title;
  ChartAxis x;
  std::vector<std::string> parts;  // what the parts are; painted as p0, p1, ...
  struct Bar {
    std::string label;
    std::vector<double> values;  // one for each part
  };
  std::vector<Bar> bars;
};
std::string to_svg(const BarChart& chart);

/// How often each whole number from 0 on was seen, as shares of all.
struct Histogram {
  std::string id, title;
  ChartAxis x;  // of whole numbers
  int series = 0;
  std::vector<double> counts;
  std::optional<double> mean;
};
std::string to_svg(const Histogram& chart);

}  // namespace taxon::report
