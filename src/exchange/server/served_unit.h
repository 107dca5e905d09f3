#pragma once

#include <algorithm>
#include <map>
#include <optional>

#include "exchange/replay/server_replay.h"
#include "exchange/server/server_channel.h"
#include "task/event.h"

namespace taxon::exchange {

/// What a server is told by whoever makes it.
struct ServerSetup {
  const Layout* layout = nullptr;       // outlives the server
  comm::Communicator* group = nullptr;  // outlives it
  std::vector<Range> ranges;            // by bucket: what the group exchanges of it; empty: all
  Roles roles;
  const plan::LevelPlan* level = nullptr;  // outlives it
  std::uint64_t seed = 0;                  // of the plan
  const ConsistencyRow* consistency = nullptr;
  std::unique_ptr<ServerState> owner;
  const tensor::Arena* weights = nullptr;  // its memory starts as these; also says type and world
  /// Makes what corrects late contributions, for so many owned elements; empty: they count as others.
  ServerUpdate::LateRule late;
  EventLog log;
  comm::FailureMonitor* failures = nullptr;  // outlives it; null: every worker's loss ends the run
  std::unique_ptr<ServerCoders> coders;      // null: everything travels as it is
};

/// What a server counts for reports.
struct ServerCounts {
  std::vector<std::int64_t> staleness;  // [how many updates late]: contributions
  std::int64_t dropped = 0;
  void count(std::int64_t late) {
    const auto at = static_cast<std::size_t>(std::max<std::int64_t>(0, late));
    if (staleness.size() <= at) staleness.resize(at + 1);
    ++staleness[at];
  }
};

/// One bucket's part at its server: takes in contributions, asks the controller what counts and who may go
/// on, updates, answers. Executor's thread only.
class ServedUnit {
 public:
  /// Everything outlives it. `updates`: that the owner made, which rules correct their means by (Adam's t);
  /// not the version, which begins at the workers' steps in a run that goes on. `counts`: may be null, where
  /// another unit counts.
  ServedUnit(const ServerSetup& setup, ServerUpdate& update, const Bucket& bucket, Range owned,
             double* updates, ServerCounts* counts);
  /// After the part says how its values travel.
  void attach(std::vector<ChannelPeer>* workers);
  /// Everybody begins after so many updates and samples.
  void set_out(std::int64_t version, std::int64_t samples);

  /// Serves one worker until it closes.
  task::Task<void> serve(int worker);
  /// A worker is gone for good; what it handed in stays. Throws Error{PeerLost} if too few are left.
  task::Task<void> lose(int worker);
  /// A worker asks to count nowhere until it hands in again; pause() returns when that is so.
  void ask_pause(int worker);
  task::Task<void> pause(int worker, std::int64_t number);
  /// Returns when no update is underway. REQUIRES: workers hand in nothing meanwhile.
  task::Task<void> quiet();
  /// The workers have closed: throws Error{Mismatch} if the order that it follows goes on.
  void finish() const;

  OwnedPart& part() { return part_; }
  ServerChannel& channel(int worker) { return *slot(worker).channel; }

 private:
  struct WorkerSlot {
    std::unique_ptr<ServerChannel> channel;
    std::optional<Contribution> came;  // and waits for its turn
    bool waits = false, wants_pause = false, closed = false;
    bool applied = false;  // what it handed in last, or there is nothing to come of it
    Buffer answer;
    Buffer last;  // answer, where it is not the owner's values: for a contribution that comes again
    ServerWire::Head head{};
    std::unique_ptr<task::Event> may_go, paused;
  };
  AsyncEvent::Kind admit(int worker);
  Instant time_of_arrival(int worker) const;
  AsyncEvent::Kind drop(int worker, AsyncEvent::Kind why, std::int64_t number);
  task::Task<void> settle();
  task::Task<void> follow();
  task::Task<void> release();
  task::Task<void> update();
  task::Task<void> give(int worker);
  void make_pause(int worker, std::int64_t number);
  void note(AsyncEvent::Kind kind, int worker, std::int64_t number) const;
  std::string describe() const;
  WorkerSlot& slot(int worker) { return slots_[static_cast<std::size_t>(worker)]; }
  comm::Runtime& runtime() const { return setup_.group->runtime(); }

  const ServerSetup& setup_;
  const int quorum_;  // of present workers; with fewer the run ends
  ServerUpdate& update_;
  double* const updates_;
  ServerCounts* const counts_;
  OwnedPart part_;
  ConsistencyController controller_;
  std::vector<WorkerSlot> slots_;
  std::map<std::size_t, Contribution> pool_;  // by the controller's place
  std::size_t arrivals_ = 0;
  std::int64_t samples_ = 0;
  bool settling_ = false, again_ = false;
  std::unique_ptr<task::Event> idle_;   // somebody waits for the end of settling
  std::optional<ServerReplay> replay_;  // to follow
  Instant came_{};                      // what came last, by the order that is followed
};

}  // namespace taxon::exchange
