#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/axes.h"
#include "report/score.h"
#include "report/summary.h"
#include "report/trace.h"

namespace taxon::report {

/// Several systems side by side, as plain data. What a run left is read by report/run_reading.h; tables,
/// CSV and the page are made from this by report/comparison_table.h and report/comparison_page.h.

/// One test during a run.
struct CurvePoint {
  double seconds = 0;  // of training until then
  double samples = 0;  // that the whole job consumed
  double bytes = 0;    // that a rank sent, mean over ranks
  double loss = 0, score = 0;
};

/// How many updates happened between reading weights and using what was computed from them.
struct Staleness {
  double mean = 0, max = 0;
  std::vector<double> histogram;  // counts by staleness, from 0
};

/// What codecs of all levels together did.
struct CodecWorth {
  double ratio = 0;    // of the bytes that dense levels would have sent to those that were sent
  double seconds = 0;  // of encoding and decoding, of a rank in a step
};
/// None of none.
std::optional<CodecWorth> worth_of(const std::vector<CodecUse>& uses);

/// What one run of a system was seen to do. What does not exist is no number (NaN).
struct SystemRun {
  std::uint64_t seed = 0;
  double score = 0, loss = 0;  // of the final parameters, on what runs were evaluated on
  double samples_per_second = 0, seconds_per_step = 0, bytes_per_step = 0;
  double compute_seconds = 0, exposed_seconds = 0, data_seconds = 0;  // of a step
  std::optional<CodecWorth> codecs;
  std::optional<Staleness> staleness;
  std::vector<CurvePoint> curve;
};

struct System {
  std::string name;
  plan::Axes axes;
  std::vector<SystemRun> runs;                // by seed
  std::vector<std::string> failures;          // why runs failed, one sentence each
  std::vector<std::vector<TraceSpan>> trace;  // [rank] of one run; empty: none
};

/// Where figures come from.
enum class Origin { Measured, Emulated, Simulated };
/// "measured", "emulated", "simulated".
const char* to_string(Origin origin);

struct Comparison {
  Origin origin = Origin::Measured;
  std::string subject;                                     // what was trained on what, one sentence
  std::vector<std::pair<std::string, std::string>> facts;  // machine, command, versions
  std::vector<std::string> notes;                          // what a reader must know
  ScoreKind score;                                         // what runs were scored by
  std::optional<double> target_accuracy;                   // share
  std::vector<System> systems;
};

/// Mean and standard error of the mean; the latter 0 for one value.
struct Estimate {
  double mean = 0, error = 0;
  int count = 0;
};
/// Of the values that are numbers; nothing if there are none.
std::optional<Estimate> estimate(const std::vector<double>& values);

/// The first test of a run whose score is an accuracy as high; null: none is.
const CurvePoint* first_reaching(const SystemRun& run, double accuracy);

/// The mean curve of a system's runs, test by test: its longest part that all have. `error` is that of the
/// score or the loss, whichever `of` asks for.
enum class Measure { Score, Loss };
struct MeanPoint {
  CurvePoint at;
  double error = 0;
};
std::vector<MeanPoint> mean_curve(const System& system, Measure of);

}  // namespace taxon::report
