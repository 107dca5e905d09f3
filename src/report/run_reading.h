#pragma once

#include <string>
#include <vector>

#include "report/comparison.h"

namespace taxon::report {

/// What runs left behind, read back: the texts of summary.json, metrics.jsonl and trace.json as
/// docs/outputs.md describes them. Throw Error{Data} that names `origin` and what is wrong.

struct FinishedRun {
  SystemRun run;  // without its curve
  ScoreKind score = {};
  bool interrupted = false;
  int world_size = 0;
  std::int64_t parameters = 0;
  std::string transport;
  std::vector<int> lost;  // ranks that the others went on without
};
FinishedRun read_summary(const std::string& json, const std::string& origin);

/// The tests of a run, in their order. Of a step that a resumed run repeated the later line counts.
std::vector<CurvePoint> read_curve(const std::string& lines, const std::string& origin,
                                   const ScoreKind& score = {});

/// The spans of each rank.
std::vector<std::vector<TraceSpan>> read_trace(const std::string& json, const std::string& origin);

}  // namespace taxon::report
