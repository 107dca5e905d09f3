#include "report/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "report/chart_frame.h"
#include "report/markup.h"

namespace taxon::report {
namespace {

constexpr double kTimelineWidth = 1000, kLeft = 62, kRight = 14, kTimelineTop = 26, kLane = 12, kRank = 30,
                 kTimelineBottom = 42;
constexpr double kTimelineSmallest = 0.35;  // pixels; shorter spans are drawn as long as this
constexpr std::size_t kMostRanks = 16;      // further ones look alike

// Units from here on are no bucket's but votes and agreements, which last as long as the slowest rank
// computes.
constexpr std::int64_t kFirstAgreement = 0x40000000;

enum class Kind { Compute, Update, Talk };

struct KindRow {
  Kind kind;
  const char* name;  // class
  const char* words;
  int lane;
};
constexpr KindRow kKinds[] = {{Kind::Compute, "compute", "forward and backward", 0},
                              {Kind::Update, "update", "sums, updates and casts", 1},
                              {Kind::Talk, "talk", "communication", 1}};

bool is_pass(const TraceSpan& span) { return span.track == "compute" && span.name.starts_with("forward"); }

std::optional<Kind> kind_of(const TraceSpan& span) {
  if (span.track == "compute") return Kind::Compute;
  if (span.track != "exchange" || span.unit >= kFirstAgreement) return {};
  constexpr const char* kKernels[] = {"update", "cast", "keep", "gradient norm"};
  const bool kernel = std::find(std::begin(kKernels), std::end(kKernels), span.name) != std::end(kKernels);
  return kernel ? Kind::Update : Kind::Talk;
}

/// Spans of one kind that overlap or nearly touch are one rectangle.
struct Stroke {
  double from = 0, to = 0;
  std::string name;
};

std::vector<Stroke> strokes_of(const std::vector<TraceSpan>& spans, Kind kind, const Scale& scale) {
  std::vector<Stroke> all;
  for (const TraceSpan& span : spans) {
    const double begin = std::max(span.begin_us, scale.least);
    const double end = std::min(span.begin_us + span.duration_us, scale.most);
    if (kind_of(span) != kind || begin >= end) continue;
    all.push_back({scale.at(begin), std::max(scale.at(end), scale.at(begin) + kTimelineSmallest), span.name});
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.from < b.from; });
  std::vector<Stroke> merged;
  const double gap = kind == Kind::Compute ? 0 : kTimelineSmallest;  // passes stay apart
  for (Stroke& stroke : all) {
    if (!merged.empty() && stroke.from < merged.back().to + gap && merged.back().name == stroke.name)
      merged.back().to = std::max(merged.back().to, stroke.to);
    else
      merged.push_back(std::move(stroke));
  }
  return merged;
}

std::string lanes_of(const std::vector<TraceSpan>& spans, const Scale& scale, double top) {
  std::string svg;
  for (const KindRow& row : kKinds) {
    const double y = top + row.lane * (kLane + 1);
    for (const Stroke& stroke : strokes_of(spans, row.kind, scale))
      svg += fmt::format(
          "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}</title></rect>",
          row.name, coordinate(stroke.from), coordinate(y), coordinate(stroke.to - stroke.from),
          coordinate(kLane), escape(stroke.name));
  }
  return svg;
}

}  // namespace

StepWindow middle_steps(const std::vector<std::vector<TraceSpan>>& spans_by_rank, int steps) {
  std::vector<double> begins;
  if (!spans_by_rank.empty())
    for (const TraceSpan& span : spans_by_rank.front())
      if (is_pass(span) && span.name != "forward") begins.push_back(span.begin_us);
  std::sort(begins.begin(), begins.end());
  const auto wanted = static_cast<std::size_t>(steps);
  if (begins.size() < 2) return {};
  const std::size_t shown = std::min(wanted, begins.size() - 1);
  // Tests stand between steps of the middle: the shortest of all windows around it has none.
  const std::size_t last = begins.size() - 1 - shown, middle = last / 2, around = 12;
  std::size_t best = middle;
  for (std::size_t i = middle > around ? middle - around : 0; i <= std::min(last, middle + around); ++i)
    if (begins[i + shown] - begins[i] < begins[best + shown] - begins[best]) best = i;
  return {begins[best], begins[best + shown]};
}

std::string to_svg(const TimelineChart& timeline) {
  const std::size_t ranks = std::min(timeline.spans->size(), kMostRanks);
  const double bottom = kTimelineTop + kRank * static_cast<double>(ranks);
  const PlotArea plot{kLeft, kTimelineTop, kTimelineWidth - kRight, bottom};
  const double unit_seconds = timeline.length_us / 1e6;
  const DisplayUnit unit = unit_for(Quantity::Seconds, unit_seconds);
  Scale scale;
  scale.least = timeline.window.begin_us;
  scale.most = timeline.window.begin_us + std::max(timeline.length_us, 1e-3);
  scale.from = plot.left;
  scale.to = plot.right;
  Scale shown = scale;
  shown.least = 0;
  shown.most = std::max(unit_seconds / unit.factor, 1e-12);
  std::string svg = begin_svg({timeline.id, timeline.title,
                               fmt::format("{}: what each of {} ranks did when, computing above, "
                                           "communicating below.",
                                           timeline.title, timeline.spans->size()),
                               kTimelineWidth, bottom + kTimelineBottom});
  svg +=
      fmt::format("<text class=\"heading\" x=\"4\" y=\"14\">{}</text>", escape(shorten(timeline.title, 60)));
  double legend = kTimelineWidth - kRight - 420;
  for (const KindRow& row : kKinds) {
    svg += fmt::format("<rect class=\"{}\" x=\"{}\" y=\"4\" width=\"11\" height=\"11\"/>", row.name,
                       coordinate(legend));
    svg +=
        fmt::format("<text class=\"tick\" x=\"{}\" y=\"13.5\">{}</text>", coordinate(legend + 15), row.words);
    legend += text_width(row.words) + 28;
  }
  svg += horizontal_axis(plot, shown, with_unit("time", unit));
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const double top = kTimelineTop + 3 + kRank * static_cast<double>(rank);
    svg +=
        fmt::format("<text class=\"tick\" x=\"{}\" y=\"{}\" dy=\"0.33em\" text-anchor=\"end\">rank {}</text>",
                    coordinate(kLeft - 8), coordinate(top + kLane), rank);
    svg += lanes_of((*timeline.spans)[rank], scale, top);
  }
  return svg + "</svg>";
}

}  // namespace taxon::report
