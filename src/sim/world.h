#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/runtime.h"
#include "data/memory_storage.h"
#include "plan/cluster.h"
#include "sim/fidelity.h"
#include "sim/report.h"
#include "sim/timeline.h"
#include "task/task.h"

namespace taxon::sim {

struct WorldOptions {
  Fidelity fidelity = Fidelity::Exact;
  Collectives collectives = Collectives::StepByStep;
  /// Of the runtimes, of delays and of stragglers.
  std::uint64_t seed = 0;
  /// A run that is not over by then is taken for stuck.
  Duration limit = Duration::max();
  /// Timing: regions of more bytes are phantoms. Smaller ones are real, since agreements travel in
  /// them.
  std::size_t phantom_above = std::size_t{64} << 10;
  comm::FlightRecorder::Keep recorder = comm::FlightRecorder::Keep::Recent;
  /// Ranks whose loss the others hear of one by one through `lost`, `detection` after it, instead of failing.
  std::vector<Rank> expendable;
  std::function<void(Rank hears, Rank lost, std::exception_ptr why)> lost;
  /// Where kernels and services of links are noted; outlives the world. Null: nowhere.
  ResourceTimeline* timeline = nullptr;
};

/// What every rank runs. The callable outlives its coroutines.
using RankBody = std::function<task::Task<void>(comm::Runtime&)>;

/// N ranks on virtual time, on the calling thread: the doors of a cluster that is only described. The code
/// above the doors is the same as in a real run and cannot tell. A world runs once.
///
/// Faults: a killed rank's coroutines unwind at that instant; what it had not yet sent never arrives. The
/// others hear of it `detection` later, when everything they wait for fails with the error that the control
/// network would give them (control::PeerLost). A rank that fails by itself is announced in the same way
/// (control::Aborted).
class World {
 public:
  /// REQUIRES: plan::cluster_problems(cluster, ranks) found nothing. Copies the cluster.
  World(plan::ClusterModel cluster, int ranks, WorldOptions options = {});
  World(const World&) = delete;
  ~World();

  int size() const;
  /// The doors of a rank. They live as long as the world.
  comm::Runtime& runtime(Rank rank);
  /// One file system for all ranks. It takes no time.
  data::MemoryStorage& storage();

  /// Every link, hosts first, with what has passed it so far.
  std::vector<LinkUse> links() const;

  /// Runs `body` for every rank until all have ended, also by failure. Throws nothing that a rank threw: see
  /// Report::failure.
  Report run(const RankBody& body);

 private:
  class Run;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace taxon::sim
