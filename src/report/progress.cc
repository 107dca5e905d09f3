#include "report/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/units.h"

namespace taxon::report {
namespace {

std::string with_commas(double value) {
  std::string digits = fmt::format("{:.0f}", value);
  for (auto place = static_cast<std::ptrdiff_t>(digits.size()) - 3; place > 0; place -= 3)
    digits.insert(static_cast<std::size_t>(place), 1, ',');
  return digits;
}

}  // namespace

std::string progress_line(const ProgressState& state, int width) {
  double left = static_cast<double>(state.total_samples - state.samples);
  std::vector<std::string> parts = {
      fmt::format("epoch {:.2f}/{:g}", state.epoch, state.epochs),
      fmt::format("step {}", state.step),
      "loss " + decimal(state.loss, 4),
      fmt::format("lr {:.4g}", state.rate),
      fmt::format("{} samples/s", with_commas(state.samples_per_second)),
      fmt::format("ETA {}", state.samples_per_second > 0
                                ? format_seconds(std::max(0.0, left / state.samples_per_second))
                                : "-"),
  };
  std::string line;
  for (const std::string& part : parts) {
    std::string longer = line.empty() ? part : line + "  " + part;
    if (width > 0 && longer.size() > static_cast<std::size_t>(width)) break;
    line = std::move(longer);
  }
  return line;
}

std::string decimal(double value, int places) {
  return std::isnan(value) ? "nan" : fmt::format("{:.{}f}", value, places);
}

Progress::Progress(ProgressOptions options, std::function<void(const std::string&)> write)
    : options_(std::move(options)), write_(std::move(write)) {}

void Progress::update(const ProgressState& state, double now) {
  if (now < next_) return;
  bool live = options_.style == ProgressOptions::Style::Live;
  next_ = now + (live ? 0.2 : options_.every_seconds);
  std::string line = progress_line(state, live ? std::max(1, options_.width() - 1) : 0);
  if (!live) return write_(line + "\n");
  clear();
  write_(options_.colour ? fmt::format("\x1b[36m{}\x1b[0m", line) : line);
  drawn_ = static_cast<int>(line.size());
}

void Progress::say(const std::string& line) {
  clear();
  write_(line + "\n");
}

void Progress::finish() {
  if (drawn_ > 0) write_("\n");
  drawn_ = 0;
}

void Progress::clear() {
  if (drawn_ == 0) return;
  const int rows = (drawn_ - 1) / std::max(1, options_.width());  // above the cursor's
  write_(rows > 0 ? fmt::format("\x1b[{}A\r\x1b[J", rows) : "\r\x1b[K");
  drawn_ = 0;
}

}  // namespace taxon::report
