#include "report/series_style.h"

#include <fmt/format.h>

#include <iterator>

#include "report/markup.h"

namespace taxon::report {
namespace {

constexpr const char* kDashes[] = {"", "7 3", "2 2", "9 3 2 3", "4 2"};
constexpr int kMarkers = 4;

struct Shape {
  const char* path;  // relative, from the middle
};
constexpr Shape kShapes[kMarkers] = {
    {"m-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z"},  // disc
    {"m-2.6 -2.6h5.2v5.2h-5.2z"},             // square
    {"m0 -3.4l3.3 5.8h-6.6z"},                // triangle
    {"m0 -3.7l3.2 3.7l-3.2 3.7l-3.2 -3.7z"},  // diamond
};

}  // namespace

SeriesStyle series_style(int index) {
  return {.colour = index % kSeriesColours,
          .dash = kDashes[index % static_cast<int>(std::size(kDashes))],
          .marker = index % kMarkers};
}

std::string marker_path(int marker, double x, double y) {
  return fmt::format("M{} {}{}", coordinate(x), coordinate(y), kShapes[marker % kMarkers].path);
}

std::string legend_swatch(int index) {
  const SeriesStyle style = series_style(index);
  return fmt::format(
      "<svg class=\"swatch\" width=\"34\" height=\"12\" viewBox=\"0 0 34 12\" aria-hidden=\"true\"><g "
      "class=\"{}\"><path class=\"line\" d=\"M1 6H33\" stroke-dasharray=\"{}\"/><path class=\"mark\" "
      "d=\"{}\"/></g></svg>",
      style.class_name(), style.dash, marker_path(style.marker, 17, 6));
}

}  // namespace taxon::report
