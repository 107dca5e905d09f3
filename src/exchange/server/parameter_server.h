#pragma once

#include "exchange/server/served_unit.h"
#include "task/scope.h"

namespace taxon::exchange {

/// A server: listens to every worker on each bucket's part that it owns (ServedUnit), beside whatever else
/// its rank does. A worker that is lost, where the failure monitor says that it is expendable, counts nowhere
/// from then on; what it handed in stays. Executor's thread only.
class ParameterServer {
 public:
  using Setup = ServerSetup;
  explicit ParameterServer(comm::Runtime& runtime, Setup setup);

  /// Fills its memory from the weights.
  task::Task<void> open();
  /// Begins to listen, after so many updates and samples.
  void serve(std::int64_t version, std::int64_t samples);
  /// Returns when no update is underway. REQUIRES: workers hand in nothing meanwhile.
  task::Task<void> quiet();
  /// Returns when every worker has closed.
  task::Task<void> closed();
  task::Task<void> abandon(std::exception_ptr why);

  /// The parts that it owns, one for each bucket.
  std::vector<Range> owned() const;
  const ServerState& owner() const { return update_.owner(); }
  ServerState& owner() { return update_.owner(); }
  /// What it keeps beside the owner, packed: of owned elements alone.
  std::vector<std::pair<std::string, tensor::Arena*>> state() { return update_.state(); }
  /// [bucket]: updates that its owner made since the optimiser's state was zero; float64.
  tensor::Arena& updates() { return updates_; }
  /// How many contributions were so many updates late; of this server's largest part in bucket 0.
  const std::vector<std::int64_t>& staleness() const { return counts_.staleness; }
  std::int64_t dropped() const { return counts_.dropped; }
  /// How a worker's values come and go, for reports.
  std::string path_of(int worker) const;

 private:
  task::Task<void> while_here(int worker, task::Task<void> serving, ServedUnit* unit);
  task::Task<void> handle_control(int worker);

  comm::Runtime& runtime_;
  Setup setup_;  // but for the owner and the coders, which the update has
  ServerUpdate update_;
  tensor::Arena updates_;
  ServerCounts counts_;
  tensor::Arena windows_;  // of contributions; empty: they all come as messages
  std::vector<ChannelPeer> workers_;
  std::vector<std::unique_ptr<ServedUnit>> units_;
  task::Scope listeners_;
};

}  // namespace taxon::exchange
