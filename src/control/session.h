#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/named.h"
#include "base/time.h"
#include "control/event.h"
#include "control/secret.h"
#include "control/socket.h"
#include "control/timeouts.h"
#include "task/wait.h"

namespace taxon::control {

/// What ends a join: of operation "rendezvous"; of another kind where the cause is not the rendezvous itself.
inline Error rendezvous_error(const std::string& why, ErrorKind kind = ErrorKind::Rendezvous) {
  return Error(kind, why, {.operation = "rendezvous"});
}

struct JoinOptions {
  Rank rank;
  int world_size = 1;
  std::string address = "127.0.0.1";  // rank 0's host, as a name or a number
  std::string other_address;          // tried where `address` is a name that means nothing; empty: none
  std::uint16_t port = 29500;
  Secret secret;                // empty: rank 0 listens on loopback only
  std::string version;          // Taxon's; must be equal on all ranks
  std::string plan_hash;        // must be equal on all ranks
  std::string host_id;          // equal on ranks that share memory
  std::vector<std::byte> blob;  // the transport's address, for the other ranks
  Timeouts timeouts;
  /// A line about what is being waited for, every few seconds. Called on the session's thread.
  std::function<void(const std::string&)> progress;
  /// Asked a few times a second while joining; what it returns ends join(), and is told to the others that
  /// join. Session's thread.
  std::function<std::optional<Error>()> give_up;
  /// Asks what a name means; may block for seconds. On a thread of its own. Empty: the system's resolver.
  std::function<Resolution(const std::string& host, std::uint16_t port)> resolve;
};

/// What every rank knows of a rank.
struct Member {
  Rank rank;
  std::string host_id;
  std::int64_t pid = 0;
  std::string address;  // as rank 0 sees it (rank 0's own: as this rank sees it)
  std::vector<std::byte> blob;
};

/// A rank's place in the job: a small TCP network of its own, a star through rank 0, beside the one that
/// moves tensors. It knows who is there, notices who died or fell silent, tells everyone who failed first,
/// and collects who waits for what. One thread, asleep but for a heartbeat a second; docs/control.md has the
/// protocol. All methods may be called from any thread but the session's own, unless they say otherwise.
class Session {
 public:
  /// Blocks until all ranks have joined. Throws Error{Rendezvous} with one line: deadline passed (and who is
  /// missing), wrong secret, versions, plans or world sizes that differ, a rank that is there twice, a port
  /// in use. A late rank 0 and a late name are waited for until the deadline. A rank that is lost once it was
  /// there ends the join of all with Error{PeerLost}, one that gives up with its reason; Error{Resources}
  /// where the system refuses threads or open files.
  static std::unique_ptr<Session> join(JoinOptions options);
  /// Without leave() or abort() before, this rank counts as lost.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Rank rank() const;
  int world_size() const;
  /// By rank.
  const std::vector<Member>& members() const;
  /// A random number that names this run of the job, chosen by rank 0.
  std::uint64_t epoch() const;
  /// steady_clock of rank 0 minus steady_clock here, from the fastest of the recent heartbeats. Any thread.
  std::chrono::nanoseconds clock_offset() const;

  /// `handler` gets every event on the session's thread, in order, first those that came before this call. It
  /// must not block, and call nothing of the session but failure(), report_waits() and request_stop().
  void on_event(std::function<void(const Event&)> handler);
  /// The first fatal event, which names the culprit. Any thread.
  std::optional<Event> failure() const;

  /// Every rank gives `bytes` and gets what all gave, by rank. All ranks make the same calls in the same
  /// order; `what` names the call: ranks that disagree about it get Error{Mismatch}. One call at a time.
  /// Throws the failure's error when the run fails meanwhile. For small things: all of it passes through rank
  /// 0.
  std::vector<std::vector<std::byte>> exchange(const std::string& what, std::span<const std::byte> bytes);

  /// From now on the job does without these ranks: their loss is a Departed, no failure, unless an exchange()
  /// waits for them. Rank 0's word counts. Any thread.
  void set_expendable(std::vector<Rank> ranks);

  /// What this rank waits for, oldest first, and the same executor's now(). Call it about once a second; it
  /// costs a message only if something has been waited for long. Any thread.
  void report_waits(const std::vector<task::WaitInfo>& waits, Instant now);
  /// Asks every rank for an orderly end: all get StopRequested. Any thread.
  void request_stop();

  /// Tells every rank why this one fails and ends the session. Returns when they can know it (at most 2 s).
  void abort(ErrorKind kind, const std::string& message);
  /// Says goodbye and ends the session, so that this rank's end is no loss. Rank 0 waits until all others
  /// have left. Throws the failure's error if the run failed before.
  void leave();

 private:
  class Core;
  explicit Session(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace taxon::control
