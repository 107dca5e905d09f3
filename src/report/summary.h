#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plan/plan.h"
#include "report/score.h"

namespace taxon::report {

/// What the codec of a level did: means over ranks and steps.
struct CodecUse {
  int level = 0;
  std::string codec;
  double dense_bytes_per_step = 0;  // that a rank would have sent without it
  double sent_bytes_per_step = 0;
  double encode_ms = 0, decode_ms = 0;  // of a rank in a step, hidden or not
  double ratio() const { return sent_bytes_per_step > 0 ? dense_bytes_per_step / sent_bytes_per_step : 1; }
};

/// How a rank's threads shared the cores with others.
struct CoreUse {
  /// From this queued_share on others are at work on the cores, and times are not to be trusted.
  static constexpr double kBusyShare = 0.1;
  int threads = 0;  // that computed; 0: not known
  std::string
      waiting;  // of these for their next work at the end: active, passive, or given by the environment
  double queued_share = -1;  // of the time in which threads wanted a core, waiting for one; < 0: not known
  int changes = 0;           // of `waiting`
};

/// A tensor that leaves the rank in every step.
struct CrossingTensor {
  std::string name;
  std::string shape;           // static or dynamic
  std::int64_t bytes = 0;      // of the last step
  double copies_per_step = 0;  // mean
  std::int64_t last_copy = 0;  // the step of this part of the run that copied it last, from 1; 0: none did
  std::string why;             // it was copied then
};

/// What a run ends with: the fields of summary.json, in its order. docs/outputs.md explains each.
struct Summary {
  std::string name;
  std::string version;
  bool interrupted = false;
  plan::Split split = plan::Split::Test;  // whose are
  std::vector<Score> scores;              // of the final parameters; the first says most
  double loss = 0;                        // theirs
  double train_loss = 0;
  std::int64_t steps = 0;
  double epochs = 0;
  std::int64_t samples = 0;
  double samples_per_second = 0;
  double step_ms_p50 = 0, step_ms_p95 = 0;
  double compute_ms = 0;                // mean per step
  double exposed_communication_ms = 0;  // mean per step
  double data_wait_ms = 0;              // mean per step
  double bytes_sent_per_step = 0;       // mean per rank
  int world_size = 1;
  std::string transport;
  std::int64_t parameters = 0;
  std::uint64_t parameter_hash = 0;
  std::uint64_t seed = 0;
  double wall_seconds = 0;
  std::uint64_t peak_rss_bytes = 0;
  /// Of rank 0: with shards, a part of the whole state.
  std::uint64_t weight_bytes = 0, gradient_bytes = 0, optimiser_bytes = 0;
  std::int64_t gradient_copies_per_step = 0, gradient_copy_bytes_per_step = 0;
  std::vector<CrossingTensor> crossings;  // of rank 0, as they are sent
  /// With servers: contributions by how many updates late they were, and how many came too late to count.
  std::vector<double> staleness;
  double dropped = 0;
  CoreUse cores;                   // of rank 0
  std::vector<int> lost;           // ranks that the others did without
  std::int64_t skipped_steps = 0;  // since something was not finite
  struct Bucket {
    std::int64_t bytes = 0;
    std::vector<std::string> collectives;
    std::vector<std::string> reasons = {};  // by level with codec auto
  };
  std::vector<Bucket> buckets;
  std::vector<CodecUse> codecs;  // of the levels that have one
  std::string prompt, written;   // by a model of bytes, of the test set's beginning
};

/// Of counts by staleness, from 0; 0 of none.
double mean_staleness(const std::vector<double>& counts);
/// `codecs` of summary.json and of a simulation's, as text: an array.
std::string codecs_json(const std::vector<CodecUse>& codecs);
/// A line for a person, without what it is about: "top_k at level 0: 49.5 times less than dense, ...".
std::string describe(const CodecUse& use);
/// A line for a person, without what it is about: "6 static; in the last step 0 copies, ...".
std::string describe(const std::vector<CrossingTensor>& crossings, std::int64_t copies);
/// summary.json.
std::string to_json(const Summary& summary);
/// What a person reads at the end of a run; `folder` is where the outputs are.
std::string to_text(const Summary& summary, const std::string& folder);

/// A line of metrics.jsonl: numbers by name, in the given order.
std::string metrics_line(const std::vector<std::pair<std::string, double>>& numbers);

}  // namespace taxon::report
