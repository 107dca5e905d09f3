#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/chart.h"
#include "report/chart_frame.h"
#include "report/markup.h"
#include "report/series_style.h"

namespace taxon::report {
namespace {

constexpr double kCurvesWidth = 460, kCurvesHeight = 290;
constexpr double kLabelGap = 14;             // from one name to the next
constexpr double kFarApart = 12;             // ends of curves: then the axis is logarithmic
constexpr std::size_t kCurvesLongName = 20;  // of a curve, in letters

struct Bounds {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  void take(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
};

/// The chart's points in display units, without those that are no numbers.
class Curves {
 public:
  explicit Curves(const LineChart& chart) {
    Bounds any_x, any_y;
    for (const Curve& curve : chart.curves)
      for (const ChartPoint& point : curve.points)
        if (std::isfinite(point.x)) any_x.take(point.x);
    for (const Curve& curve : chart.curves)
      for (const ChartPoint& point : curve.points)
        if (std::isfinite(point.y)) any_y.take(point.y);
    x_unit = unit_for(chart.x.quantity, any_x.most);
    // What is shown in bytes over many powers has its units at the ticks.
    if (chart.x.quantity == Quantity::Bytes && is_spread(chart)) x_unit = {};
    quantity = chart.x.quantity;
    y_unit = unit_for(chart.y.quantity, any_y.most);
    for (const Curve& curve : chart.curves) take(curve);
    for (const Curve& curve : list) show(curve, chart.begin);
    if (!chart.goal) return;
    y.take(chart.goal->y / y_unit.factor);
    visible.take(chart.goal->y / y_unit.factor);
  }

  Scale x_scale() const {
    if (are_far_apart(ends) && x.least > 0) return logarithmic_scale(x.least, x.most, quantity);
    return linear_scale(std::min(0.0, x.least), x.most);
  }
  Scale y_scale() const { return linear_scale(visible.least, y.most); }
  double lowest() const { return y.least; }

  DisplayUnit x_unit, y_unit;
  Quantity quantity = Quantity::Number;  // of x
  std::vector<Curve> list;

 private:
  static bool are_far_apart(const Bounds& ends) {
    return ends.least > 0 && ends.most > kFarApart * ends.least;
  }
  /// As x_scale() decides, before anything is in display units.
  static bool is_spread(const LineChart& chart) {
    Bounds ends, all;
    for (const Curve& curve : chart.curves) {
      const ChartPoint* last = nullptr;
      for (const ChartPoint& point : curve.points)
        if (std::isfinite(point.x) && std::isfinite(point.y)) all.take(point.x), last = &point;
      if (last != nullptr) ends.take(last->x);
    }
    return are_far_apart(ends) && all.least > 0;
  }
  void take(const Curve& curve) {
    Curve shown{curve.label, curve.series, {}};
    for (ChartPoint point : curve.points) {
      if (!std::isfinite(point.x) || !std::isfinite(point.y)) continue;
      point = {point.x / x_unit.factor, point.y / y_unit.factor, point.error / y_unit.factor};
      if (!std::isfinite(point.error)) point.error = 0;
      x.take(point.x);
      y.take(point.y - point.error);
      y.take(point.y + point.error);
      shown.points.push_back(point);
    }
    if (shown.points.empty()) return;
    ends.take(shown.points.back().x);
    list.push_back(std::move(shown));
  }
  void show(const Curve& curve, LineChart::Begin begin) {
    std::size_t i = begin == LineChart::Begin::Lowest ? 0 : curve.points.size() / 2;
    for (; i < curve.points.size(); ++i) visible.take(curve.points[i].y - curve.points[i].error);
  }
  Bounds x, y, ends;
  Bounds visible;  // of y: where the scale begins
};

/// Names beside the ends of their curves, moved apart until none touches another.
std::vector<double> spread_labels(const std::vector<Curve>& curves, const Scale& y, const PlotArea& plot) {
  std::vector<std::size_t> order(curves.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  auto end = [&](std::size_t i) { return y.at(curves[i].points.back().y); };
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return end(a) < end(b); });
  std::vector<double> places(curves.size());
  double free_from = plot.top + 2;
  for (std::size_t i : order) {
    places[i] = std::max(end(i), free_from);
    free_from = places[i] + kLabelGap;
  }
  double free_to = plot.bottom;
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    places[*i] = std::min(places[*i], free_to);
    free_to = places[*i] - kLabelGap;
  }
  return places;
}

class LineDrawing {
 public:
  explicit LineDrawing(const LineChart& chart) : chart_(chart), curves_(chart) {
    const double room = kCurvesHeight - 86;
    named_ = static_cast<double>(curves_.list.size()) * kLabelGap <= room;
    double names = 0;
    for (const Curve& curve : curves_.list)
      names = std::max(names, text_width(shorten(curve.label, kCurvesLongName)));
    plot_ = {52, 34, kCurvesWidth - (named_ ? names + 26 : 16), kCurvesHeight - 46};
    x_ = curves_.x_scale();
    y_ = curves_.y_scale();
    x_.from = plot_.left;
    x_.to = plot_.right;
    y_.from = plot_.bottom;
    y_.to = plot_.top;
    cut_ = below(curves_.lowest());
  }

  std::string draw() const {
    std::string svg = begin_svg({chart_.id, chart_.title, description(), kCurvesWidth, kCurvesHeight});
    std::string x_name = with_unit(chart_.x.title, curves_.x_unit);
    if (x_.kind == Scale::Kind::Logarithmic) x_name += " (logarithmic)";
    svg += vertical_axis(plot_, y_, with_unit(chart_.y.title, curves_.y_unit) + beginning());
    svg += horizontal_axis(plot_, x_, x_name);
    if (chart_.goal) svg += goal();
    if (cut_) svg += window();
    const auto places = spread_labels(curves_.list, y_, plot_);
    for (std::size_t i = 0; i < curves_.list.size(); ++i) svg += draw(curves_.list[i], places[i]);
    return svg + "</svg>";
  }

 private:
  /// Whether it is below the scale, by more than rounding.
  bool below(double y) const { return y < y_.least - 1e-6 * (y_.most - y_.least); }

  /// Of the vertical axis; a scale's ends are ticks.
  std::string beginning() const {
    return y_.least > 0 ? fmt::format(" (begins at {}, not at 0)", ticks_of(y_).front().label) : "";
  }

  std::string description() const {
    std::string text = fmt::format("{} over {}.", with_unit(chart_.y.title, curves_.y_unit),
                                   with_unit(chart_.x.title, curves_.x_unit));
    if (cut_) text += fmt::format(" What is below {:.4g} is cut off.", y_.least);
    for (const Curve& curve : curves_.list)
      text += fmt::format(" {} ends at {:.4g} after {:.4g}.", curve.label, curve.points.back().y,
                          curve.points.back().x);
    return text;
  }

  std::string goal() const {
    const double y = y_.at(chart_.goal->y / curves_.y_unit.factor);
    return fmt::format(
        "<path class=\"goal\" d=\"M{} {}H{}\"/><text class=\"tick\" x=\"{}\" y=\"{}\">{}</text>",
        coordinate(plot_.left), coordinate(y), coordinate(plot_.right), coordinate(plot_.left + 5),
        coordinate(y - 4), escape(chart_.goal->label));
  }

  /// What curves that are cut off are seen through.
  std::string window() const {
    constexpr double kEdge = 3;  // half a line at the other sides is no cut
    return fmt::format(
        "<clipPath id=\"{}-window\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath>",
        escape(chart_.id), coordinate(plot_.left - kEdge), coordinate(plot_.top - kEdge),
        coordinate(plot_.right - plot_.left + 2 * kEdge), coordinate(plot_.bottom - plot_.top + kEdge));
  }

  std::string through_window(const std::string& lines) const {
    if (!cut_) return lines;
    return fmt::format("<g clip-path=\"url(#{}-window)\">{}</g>", escape(chart_.id), lines);
  }

  std::string path(const Curve& curve, double errors) const {
    std::string text;
    for (const ChartPoint& point : curve.points)
      text += fmt::format("{}{} {}", text.empty() ? "M" : "L", coordinate(x_.at(point.x)),
                          coordinate(y_.at(point.y + errors * point.error)));
    return text;
  }

  std::string band(const Curve& curve) const {
    auto has_error = [](const ChartPoint& point) { return point.error > 0; };
    if (curve.points.size() < 2 || std::none_of(curve.points.begin(), curve.points.end(), has_error))
      return "";
    Curve back = curve;
    std::reverse(back.points.begin(), back.points.end());
    std::string lower = path(back, -1);
    lower[0] = 'L';
    return fmt::format("<path class=\"band\" d=\"{}{}Z\"/>", path(curve, 1), lower);
  }

  std::string marks(const Curve& curve, const SeriesStyle& style) const {
    std::string svg;
    for (const ChartPoint& point : curve.points)
      if (!below(point.y))
        svg += fmt::format("<path class=\"mark\" d=\"{}\"><title>{}: {:.4g} at {:.4g}</title></path>",
                           marker_path(style.marker, x_.at(point.x), y_.at(point.y)), escape(curve.label),
                           point.y, point.x);
    return svg;
  }

  std::string draw(const Curve& curve, double place) const {
    const SeriesStyle style = series_style(curve.series);
    std::string svg =
        fmt::format("<g class=\"series {}\" data-series=\"{}\">", style.class_name(), curve.series);
    if (named_)
      svg += fmt::format("<path class=\"lead\" d=\"M{} {}L{} {}\"/>",
                         coordinate(x_.at(curve.points.back().x)), coordinate(y_.at(curve.points.back().y)),
                         coordinate(plot_.right + 10), coordinate(place));
    svg += through_window(band(curve) + fmt::format("<path class=\"line\" stroke-dasharray=\"{}\" d=\"{}\"/>",
                                                    style.dash, path(curve, 0)));
    svg += marks(curve, style);
    if (named_)
      svg += fmt::format(
          "<path class=\"mark\" d=\"{}\"/><text class=\"name\" x=\"{}\" y=\"{}\" dy=\"0.33em\">{}</text>",
          marker_path(style.marker, plot_.right + 11, place), coordinate(plot_.right + 19), coordinate(place),
          escape(shorten(curve.label, kCurvesLongName)));
    return svg + "</g>";
  }

  const LineChart& chart_;
  Curves curves_;
  bool named_ = false;
  bool cut_ = false;  // something is below the scale
  PlotArea plot_;
  Scale x_, y_;
};

}  // namespace

std::string to_svg(const LineChart& chart) { return LineDrawing(chart).draw(); }

}  // namespace taxon::report
