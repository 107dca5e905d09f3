#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "comm/failure_monitor.h"
#include "comm/runtime.h"
#include "data/dataset.h"
#include "data/storage.h"
#include "exchange/extensions.h"
#include "exchange/replay/async_event.h"
#include "model/model.h"
#include "plan/plan.h"
#include "train/observer.h"
#include "train/replay/replay_log.h"

namespace taxon::train {

/// What a run works with. Everything outlives the run.
struct TrainContext {
  comm::Runtime& runtime;
  model::Model& model;  // not bound yet; equal on every rank up to its weights, of which rank 0's count
  const data::Datasets& datasets;
  data::Storage& storage;  // rank 0's is written to
  Observer& observer;
};

/// Memory that a rank may take, together with all ranks that name the same.
struct RankMemory {
  std::string name;
  std::uint64_t available = 0;  // bytes; 0: not known
};

struct TrainOptions {
  plan::Plan plan;  // legal; equal on every rank
  std::string out;  // folder of the checkpoints; rank 0 alone touches it. Empty: no files
  enum class Start {
    Fresh,
    Resume,  // from the newest whole checkpoint in `out`; from the beginning, with a notice, if there is none
  } start = Start::Fresh;
  std::string version;       // recorded in checkpoints
  Duration clock_offset{0};  // added to this rank's times it gives rank 0's, for traces
  /// Set from outside (a signal) on any rank: all ranks finish the same step, save a checkpoint and end.
  const std::atomic<bool>* stop = nullptr;
  /// Gets what this rank does. Outlives the run. Null: nobody asks.
  exchange::AsyncEvents* events = nullptr;
  /// What every rank does comes with rank 0's outcome. REQUIRES: problems_of_recording() has none.
  bool record_order = false;
  /// The order of another run, whose weights this one comes to; outlives the run. It does not look at the
  /// clock for its end, can't be stopped, and any loss ends it. Throws Error{Mismatch} where it can't go on
  /// in this order. Null: things are done as they come. REQUIRES: problems_of_following() has none.
  const ReplayLog* follow = nullptr;
  /// Workers that the others can do without (exchange::expendable_ranks), and who tells of their loss.
  /// Outlives the run. Null: any loss ends it.
  comm::FailureMonitor* failures = nullptr;
  /// What the plan names beside rows of the tables.
  exchange::Extensions own = {};
  std::optional<std::int64_t> resume_step;  // Resume: from the checkpoint of this step and no other
  /// Resume: "key.path=value" of keys whose values may be others than the checkpoint's.
  std::vector<std::string> assignments;
  RankMemory memory = {};  // what needs more is refused before arenas are made
};

/// Data-parallel training in whatever discipline the plan says, from the first broadcast to the final test.
/// Collective over all ranks of the runtime. Throws Error: PeerLost and Mismatch from the exchange, Data,
/// Output and Checkpoint from rank 0's files, Usage as exchange::require_whole(). When it throws or returns,
/// no operation is in flight.
task::Task<Outcome> train(TrainContext world, TrainOptions options);

}  // namespace taxon::train
