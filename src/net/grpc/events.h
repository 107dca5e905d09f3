#pragma once

#include <grpcpp/support/slice.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "base/named.h"

namespace taxon::net {

/// What brought a fragment, and brings no more than a few until it hears that they were taken.
class Arrival {
 public:
  virtual ~Arrival() = default;
  /// The rank's thread, once for each fragment.
  virtual void taken() = 0;
};

/// What gRPC's threads have to tell the rank's.
struct FragmentCame {
  Rank source;
  grpc::Slice bytes;
  std::shared_ptr<Arrival> arrival;
};
/// The peer's call to this rank is over: nothing more comes.
struct HungUp {
  Rank source;
};
/// A call of this rank that gRPC is done with. It comes along to be let go of by the rank's thread: whoever
/// drops a process's last channel joins gRPC's threads (CallbackAlternativeCQ of 1.51), which none of these
/// may do.
using EndedCall = std::shared_ptr<const void>;

/// The line to a peer takes the next fragment.
struct LineFree {
  Rank peer;
  EndedCall call;  // null: it goes on
};
/// The line to a peer takes nothing more: the peer ended the call, or the connection broke.
struct LineEnding {
  Rank peer;
};
/// What was sent last did not get there.
struct SendFailed {
  Rank peer;
  std::string why;  // empty: LineClosed will say it
  EndedCall call;
};
/// The line to a peer is closed; it was the last word about it.
struct LineClosed {
  Rank peer;
  std::string why;
  EndedCall call;
};
using Event = std::variant<FragmentCame, HungUp, LineFree, LineEnding, SendFailed, LineClosed>;

/// From gRPC's threads to the rank's, which may sleep on a file descriptor until there is something.
class Events {
 public:
  /// Throws Error{Transport} when there are no file descriptors left.
  Events();
  Events(const Events&) = delete;
  ~Events();

  /// Any thread. False: nobody listens any more.
  bool push(Event event);

  // The rank's thread.
  std::vector<Event> take();
  int fd() const { return fd_; }
  /// The descriptor will become readable when something comes. False: something is there.
  bool arm();
  void disarm();
  /// Sleeps until something is there, for at most so long.
  void wait(std::chrono::milliseconds limit);
  /// Nothing is accepted from now on. What was left.
  std::vector<Event> close();

 private:
  std::mutex mutex_;
  std::vector<Event> events_;  // protected by mutex_, like the next two
  bool asleep_ = false;
  bool closed_ = false;
  std::atomic<bool> any_{false};  // spares an idle rank the lock
  int fd_;
};

}  // namespace taxon::net
