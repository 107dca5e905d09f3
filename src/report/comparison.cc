#include "report/comparison.h"

#include <algorithm>
#include <cmath>

namespace taxon::report {

const char* to_string(Origin origin) {
  switch (origin) {
    case Origin::Emulated:
      return "emulated";
    case Origin::Simulated:
      return "simulated";
    default:
      return "measured";
  }
}

std::optional<CodecWorth> worth_of(const std::vector<CodecUse>& uses) {
  if (uses.empty()) return {};
  CodecUse all;
  for (const CodecUse& use : uses) {
    all.dense_bytes_per_step += use.dense_bytes_per_step;
    all.sent_bytes_per_step += use.sent_bytes_per_step;
    all.encode_ms += use.encode_ms;
    all.decode_ms += use.decode_ms;
  }
  return CodecWorth{all.ratio(), (all.encode_ms + all.decode_ms) / 1e3};
}

std::optional<Estimate> estimate(const std::vector<double>& values) {
  Estimate result;
  for (double value : values)
    if (std::isfinite(value)) result.mean += value, ++result.count;
  if (result.count == 0) return {};
  result.mean /= result.count;
  if (result.count == 1) return result;
  double squares = 0;
  for (double value : values)
    if (std::isfinite(value)) squares += (value - result.mean) * (value - result.mean);
  result.error = std::sqrt(squares / (result.count - 1) / result.count);
  return result;
}

const CurvePoint* first_reaching(const SystemRun& run, double accuracy) {
  auto reaches = [&](const CurvePoint& point) { return point.score >= accuracy; };
  const auto found = std::find_if(run.curve.begin(), run.curve.end(), reaches);
  return found == run.curve.end() ? nullptr : &*found;
}

std::vector<MeanPoint> mean_curve(const System& system, Measure of) {
  std::vector<MeanPoint> curve;
  if (system.runs.empty()) return curve;
  std::size_t points = system.runs.front().curve.size();
  for (const SystemRun& run : system.runs) points = std::min(points, run.curve.size());
  const auto runs = static_cast<double>(system.runs.size());
  for (std::size_t i = 0; i < points; ++i) {
    MeanPoint mean;
    std::vector<double> values;
    for (const SystemRun& run : system.runs) {
      const CurvePoint& point = run.curve[i];
      mean.at.seconds += point.seconds / runs;
      mean.at.samples += point.samples / runs;
      mean.at.bytes += point.bytes / runs;
      mean.at.loss += point.loss / runs;
      mean.at.score += point.score / runs;
      values.push_back(of == Measure::Score ? point.score : point.loss);
    }
    if (auto spread = estimate(values)) mean.error = spread->error;
    curve.push_back(mean);
  }
  return curve;
}

}  // namespace taxon::report
