#pragma once

#include <string>
#include <vector>

#include "report/trace.h"

namespace taxon::report {

/// A few steps in the middle of a run: when its first step begins and its last one ends, in microseconds of
/// the trace's clock. By rank 0's passes; both 0 if it has none.
struct StepWindow {
  double begin_us = 0, end_us = 0;
  double length() const { return end_us - begin_us; }
};
StepWindow middle_steps(const std::vector<std::vector<TraceSpan>>& spans_by_rank, int steps);

/// What every rank did when, as an SVG element like those of report/chart.h: computing above, communicating
/// below it. `length_us` of time from the window's begin are shown, so that systems can be drawn to one
/// scale. Classes: compute, update, talk.
struct TimelineChart {
  std::string id, title;
  const std::vector<std::vector<TraceSpan>>* spans = nullptr;  // [rank]
  StepWindow window;
  double length_us = 0;
};
std::string to_svg(const TimelineChart& timeline);

}  // namespace taxon::report
