#include "report/chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "report/count.h"
#include "report/markup.h"
#include "report/series_style.h"
#include "report/timeline.h"

namespace taxon::report {
namespace {

LineChart two_curves() {
  return {.id = "accuracy-time",
          .title = "accuracy against time",
          .x = {"training time", Quantity::Seconds},
          .y = {"test accuracy", Quantity::Share},
          .curves = {{"ring", 0, {{1, 0.5}, {2, 0.8}}}, {"easgd", 1, {{1, 0.4}, {3, 0.85}}}}};
}

TEST(Markup, WhatHtmlWouldReadIsEscaped) {
  EXPECT_EQ(escape("<b> & \"it's\""), "&lt;b&gt; &amp; &quot;it&#39;s&quot;");
  EXPECT_EQ(escape("a\x01z"), "a z");
  EXPECT_EQ(shorten("größte", 4), "grö…");
  EXPECT_EQ(shorten("größte", 6), "größte");
  EXPECT_EQ(coordinate(1.0 / 3), "0.33");
  EXPECT_EQ(coordinate(-0.001), "0");
  EXPECT_EQ(coordinate(NAN), "0");
}

TEST(LineChart, HasACurveForEachSystemAndNamesItsAxes) {
  const std::string svg = to_svg(two_curves());
  EXPECT_EQ(count(svg, "class=\"line\""), 2u);
  EXPECT_EQ(count(svg, "<svg "), 1u);
  EXPECT_NE(svg.find(">training time, s<"), std::string::npos);
  EXPECT_NE(svg.find(">test accuracy, % (begins at 40, not at 0)<"), std::string::npos);
  EXPECT_NE(svg.find("<title id=\"accuracy-time-title\">accuracy against time</title>"), std::string::npos);
  EXPECT_NE(svg.find("easgd ends at 85 after 3"), std::string::npos);
  EXPECT_EQ(count(svg, "class=\"name\""), 2u);
}

TEST(LineChart, HigherAccuracyIsHigherUp) {
  const std::string svg = to_svg(two_curves());
  const std::regex path("class=\"line\"[^>]* d=\"M([0-9.]+) ([0-9.]+)L([0-9.]+) ([0-9.]+)\"");
  std::smatch found;
  ASSERT_TRUE(std::regex_search(svg, found, path));
  EXPECT_LT(std::stod(found[1]), std::stod(found[3]));
  EXPECT_GT(std::stod(found[2]), std::stod(found[4]));
}

TEST(LineChart, NamesDoNotTouchEachOther) {
  LineChart chart = two_curves();
  chart.curves.clear();
  for (int i = 0; i < 9; ++i) chart.curves.push_back({"same " + std::to_string(i), i, {{1, 0.5}, {2, 0.9}}});
  const std::string svg = to_svg(chart);
  const std::regex name("class=\"name\" x=\"[0-9.]+\" y=\"([0-9.]+)\"");
  std::vector<double> places;
  for (std::sregex_iterator it(svg.begin(), svg.end(), name), end; it != end; ++it)
    places.push_back(std::stod((*it)[1]));
  ASSERT_EQ(places.size(), 9u);
  std::sort(places.begin(), places.end());
  for (std::size_t i = 1; i < places.size(); ++i) EXPECT_GE(places[i] - places[i - 1], 12);
}

/// Systems that set out from guessing and end close to each other.
LineChart close_ends(LineChart::Begin begin) {
  LineChart chart = two_curves();
  chart.begin = begin;
  chart.curves = {{"ring", 0, {{1, 0.10}, {2, 0.70}, {3, 0.84}, {4, 0.86}}},
                  {"easgd", 1, {{1, 0.10}, {2, 0.75}, {3, 0.85}, {4, 0.88}}}};
  return chart;
}

/// Height of each line's end on the page, top down.
std::vector<double> ends_of(const std::string& svg) {
  const std::regex lead("class=\"lead\" d=\"M[0-9.]+ ([0-9.]+)L");
  std::vector<double> ends;
  for (std::sregex_iterator it(svg.begin(), svg.end(), lead), end; it != end; ++it)
    ends.push_back(std::stod((*it)[1]));
  return ends;
}

TEST(LineChart, EndsHaveRoomToDifferWhereFirstHalvesAreCutOff) {
  const std::string whole = to_svg(close_ends(LineChart::Begin::Lowest));
  const std::string cut = to_svg(close_ends(LineChart::Begin::LaterHalves));
  const auto far = ends_of(cut), near = ends_of(whole);
  ASSERT_EQ(far.size(), 2u);
  EXPECT_GT(far[0] - far[1], 5 * (near[0] - near[1]));
  EXPECT_NE(cut.find("(begins at 84, not at 0)"), std::string::npos);
  EXPECT_NE(cut.find("What is below 84 is cut off."), std::string::npos);
  // Lines are seen through a window, and of marks only those inside it are there: two of each curve, and one
  // beside its name.
  EXPECT_EQ(count(cut, "<clipPath id=\"accuracy-time-window\">"), 1u);
  EXPECT_EQ(count(cut, "clip-path=\"url(#accuracy-time-window)\"><path class=\"line\""), 2u);
  EXPECT_EQ(count(cut, "class=\"mark\""), 2u * 3u);
  EXPECT_EQ(count(whole, "class=\"mark\""), 2u * 5u);
  EXPECT_EQ(whole.find("clip"), std::string::npos);
  // 0.29 is 28.999999999999996 %, which is not below 29.
  LineChart rounded = two_curves();
  rounded.curves = {{"ring", 0, {{1, 0.29}, {2, 0.30}}}};
  EXPECT_EQ(to_svg(rounded).find("clip"), std::string::npos);
  EXPECT_EQ(count(to_svg(rounded), "class=\"mark\""), 3u);
}

TEST(LineChart, NoCurveIsCutOffAltogetherAndAGoalIsNeither) {
  LineChart chart = close_ends(LineChart::Begin::LaterHalves);
  chart.curves.push_back({"stuck", 2, {{1, 0.08}, {2, 0.1}, {3, 0.1}, {4, 0.1}}});
  EXPECT_EQ(to_svg(chart).find("cut off"), std::string::npos);
  chart = close_ends(LineChart::Begin::LaterHalves);
  chart.goal = LineChart::Goal{0.6, "target"};
  EXPECT_NE(to_svg(chart).find("(begins at 60, not at 0)"), std::string::npos);
  chart.goal = LineChart::Goal{0, "target"};
  EXPECT_EQ(to_svg(chart).find("not at 0"), std::string::npos);
}

TEST(LineChart, WhatIsNoNumberIsLeftOut) {
  LineChart chart = two_curves();
  chart.curves[0].points.push_back({3, NAN});
  chart.curves.push_back({"none", 2, {{NAN, 0.1}}});
  const std::string svg = to_svg(chart);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(count(svg, "class=\"line\""), 2u);
  chart.curves.clear();
  EXPECT_EQ(count(to_svg(chart), "class=\"line\""), 0u);
}

TEST(LineChart, ErrorsAreABandAndFarEndsALogarithmicAxis) {
  LineChart chart = two_curves();
  EXPECT_EQ(count(to_svg(chart), "class=\"band\""), 0u);
  chart.curves[0].points[0].error = 0.02;
  EXPECT_EQ(count(to_svg(chart), "class=\"band\""), 1u);
  EXPECT_EQ(to_svg(chart).find("logarithmic"), std::string::npos);
  chart.curves[1].points[1].x = 50;
  EXPECT_NE(to_svg(chart).find("training time, s (logarithmic)"), std::string::npos);
}

TEST(LineChart, NamesAreEscaped) {
  LineChart chart = two_curves();
  chart.curves[0].label = "<script>";
  chart.goal = LineChart::Goal{0.8, "target <"};
  const std::string svg = to_svg(chart);
  EXPECT_EQ(svg.find("<script>"), std::string::npos);
  EXPECT_EQ(count(svg, "class=\"goal\""), 1u);
}

TEST(SeriesStyle, ThirtyFiveSystemsDifferInColourOrDash) {
  std::vector<std::pair<int, std::string>> seen;
  for (int i = 0; i < 35; ++i) {
    const std::pair style(series_style(i).colour, series_style(i).dash);
    EXPECT_EQ(std::count(seen.begin(), seen.end(), style), 0) << i;
    seen.push_back(style);
  }
}

TEST(BarChart, PartsFollowEachOther) {
  const std::string svg = to_svg(BarChart{.id = "bars",
                                          .title = "time",
                                          .x = {"time", Quantity::Seconds},
                                          .parts = {"compute", "wait"},
                                          .bars = {{"a", {0.010, 0.030}}, {"b", {0.020, 0}}}});
  EXPECT_NE(svg.find("time, ms"), std::string::npos);
  const std::regex bar("class=\"bar p[01]\" x=\"([0-9.]+)\" y=\"[0-9.]+\" width=\"([0-9.]+)\" height=\"15\"");
  std::vector<std::pair<double, double>> bars;
  for (std::sregex_iterator it(svg.begin(), svg.end(), bar), end; it != end; ++it)
    bars.emplace_back(std::stod((*it)[1]), std::stod((*it)[2]));
  ASSERT_EQ(bars.size(), 4u);
  EXPECT_NEAR(bars[1].first, bars[0].first + bars[0].second, 0.05);
  EXPECT_NEAR(bars[1].second, 3 * bars[0].second, 0.05);
}

TEST(Histogram, SharesOfAllAndTheMean) {
  const std::string svg =
      to_svg(Histogram{.id = "h", .title = "ssp", .x = {"staleness"}, .counts = {1, 3, 0}, .mean = 0.75});
  EXPECT_EQ(count(svg, "class=\"fill\""), 3u);
  EXPECT_NE(svg.find("<title>1: 75 %</title>"), std::string::npos);
  EXPECT_NE(svg.find("mean 0.75"), std::string::npos);
}

std::vector<std::vector<TraceSpan>> ten_steps() {
  std::vector<std::vector<TraceSpan>> ranks(2);
  for (auto& spans : ranks)
    for (int step = 0; step < 10; ++step) {
      const double begin = step * 100.0 + (step > 5 ? 400 : 0);  // a test after the sixth
      spans.push_back(
          {.track = "compute", .name = "forward and backward", .begin_us = begin, .duration_us = 60});
      spans.push_back(
          {.track = "exchange", .name = "all_reduce", .unit = 0, .begin_us = begin + 50, .duration_us = 40});
      spans.push_back({.track = "exchange",
                       .name = "all_reduce",
                       .unit = 0x40000001,  // a vote
                       .begin_us = begin,
                       .duration_us = 99});
      spans.push_back(
          {.track = "exchange", .name = "update", .unit = 0, .begin_us = begin + 91, .duration_us = 5});
    }
  return ranks;
}

TEST(Timeline, ShowsAFewWholeStepsWithoutTheTestBetween) {
  const auto spans = ten_steps();
  const StepWindow window = middle_steps(spans, 3);
  EXPECT_EQ(window.length(), 300);
  EXPECT_EQ(middle_steps({}, 3).length(), 0);
  const std::string svg = to_svg(TimelineChart{
      .id = "t", .title = "ring", .spans = &spans, .window = window, .length_us = window.length()});
  // Three steps of two ranks, and one of the legend.
  EXPECT_EQ(count(svg, "<rect class=\"compute\""), 7u);
  EXPECT_EQ(count(svg, "<rect class=\"talk\""), 7u);
  EXPECT_EQ(count(svg, "<rect class=\"update\""), 7u);
  EXPECT_NE(svg.find(">rank 1<"), std::string::npos);
  EXPECT_NE(svg.find("time, µs"), std::string::npos);
}

}  // namespace
}  // namespace taxon::report
