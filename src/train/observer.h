#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/named.h"
#include "comm/flight_recorder.h"
#include "model/model.h"
#include "plan/plan.h"
#include "train/replay/replay_log.h"

namespace taxon::train {

/// Memory of one rank's arenas.
struct ArenaBytes {
  std::size_t weights = 0, gradients = 0, optimiser = 0;
  std::size_t total() const { return weights + gradients + optimiser; }
};

/// What a run is made of, once the plan is resolved; the same on every rank.
struct RunInfo {
  plan::Plan plan;              // with `resolved` filled in
  std::int64_t parameters = 0;  // of the model, frozen ones included
  std::int64_t train_size = 0;
  std::int64_t total_samples = 0;                  // of the whole job, from the beginning of training
  std::int64_t start_step = 0, start_samples = 0;  // not 0 after a resume
  ArenaBytes arenas;                               // of this rank
  Instant now;                                     // on this rank's clock, of which StepReport::end is
};

/// One step of the whole job. Loss and scores are means over the labels of the global batch; times are this
/// rank's.
struct StepReport {
  std::int64_t step = 0;  // 1 is the first
  std::int64_t epoch = 0;
  std::int64_t samples = 0;  // of the whole job, this step included
  double loss = 0;
  model::Scores scores;
  double rate = 0;
  double gradient_norm = 0;  // 0 unless clipping asked for it
  bool skipped = false;      // since something was not finite (on_divergence); loss is no number then
  Duration step_time{0};     // from the end of the last step
  Instant end;               // of the step, on this rank's clock
  Duration data_wait{0};
  Duration compute{0};            // forward, backward and updates
  Duration exposed{0};            // communication that compute did not hide
  Duration encode{0}, decode{0};  // in codecs, hidden or not
};

struct Evaluation {
  std::int64_t step = 0, samples = 0;
  double loss = 0;  // mean over labels, as the scores are
  model::Scores scores;
  double bytes_sent = 0;  // payload of a rank in this process's part of the run, mean over ranks
};

/// Follows a run. Called on the executor's thread; on every rank. Blocks nothing for long.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void started(const RunInfo& info) = 0;
  virtual void stepped(const StepReport& report) = 0;
  virtual void evaluated(const Evaluation& evaluation) = 0;
  virtual void saved(const std::string& path) = 0;
  /// Something worth a line in the log.
  virtual void noticed(const std::string& sentence) = 0;
};

/// What the codec of a level did in a step: means over ranks and the steps of this process's part of the run.
struct CodecReport {
  int level = 0;
  std::string codec;
  double encode_seconds = 0, decode_seconds = 0;
  double dense_bytes = 0, sent_bytes = 0;  // of a rank, had gradients travelled as they are, and as they did
};

/// What a run ends with; the same on every rank, except where a rank is named.
struct Outcome {
  enum class End { Complete, Interrupted } end = End::Complete;
  Evaluation test;                      // of the final parameters
  std::string prompt, written;          // rank 0: what a model of bytes wrote after the test set's beginning
  double train_loss = 0;                // mean over the last epoch's worth of steps that were seen
  std::int64_t steps = 0, samples = 0;  // since the beginning of training
  double epochs = 0;
  std::uint64_t parameter_hash = 0;
  double bytes_sent_per_step = 0;   // mean over ranks and steps of this process's part of the run
  std::vector<CodecReport> codecs;  // of the levels that have one
  std::vector<double> staleness;    // contributions by how many updates late they were; empty without servers
  double dropped = 0;               // contributions that came too late to count
  std::int64_t skipped = 0;  // steps that changed nothing (on_divergence: skip), in this process's part of
                             // the run; of all workers together where they don't keep step
  std::vector<Rank> lost;    // workers that were lost on the way, and that the others did without
  std::int64_t copies_per_step = 0, copy_bytes_per_step = 0;  // gradients into the arena, this rank
  std::vector<model::GradientTransfer> crossings;             // this rank; empty: the model doesn't know
  std::optional<ReplayLog> order;                             // rank 0, if it was to be recorded
  std::vector<std::vector<std::byte>> traces;  // rank 0: every rank's packed spans, if a trace was asked for
};

}  // namespace taxon::train
