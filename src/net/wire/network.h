#pragma once

#include <exception>
#include <memory>
#include <string>

#include "net/transport.h"
#include "net/wire/send_window.h"
#include "net/wire/signal_page.h"

namespace taxon::net {

/// Another rank, as one network reaches it. Executor's thread only.
class NetworkPeer {
 public:
  explicit NetworkPeer(Rank rank) : rank(rank) {}
  NetworkPeer(const NetworkPeer&) = delete;
  virtual ~NetworkPeer() = default;

  const Rank rank;
  /// The peer's signals, where memory is shared; otherwise empty.
  SignalPage page;
  bool shares_memory() const { return static_cast<bool>(page); }

  /// Makes a connection if there is none and one is to be had. A failure is set in `lost`.
  virtual void reach() = 0;
  /// Queues a SendOp or PutOp and sends what goes at once. Does not complete `op` itself: true if it is done.
  /// REQUIRES: reach() was called, and it is not lost.
  virtual bool start(Op& op) = 0;
  /// False: the op was not queued here.
  virtual bool forget(Op& op) = 0;
  virtual bool has_queue() const = 0;
  /// The peer's region; empty where no memory is shared.
  virtual View map(const RemoteRegion&) { return {}; }
  /// Wakes the peer's poll loop.
  virtual void wake() {}
  /// Tells the peer that what it asked about first has come.
  virtual void confirm(SendWindow::Confirmation what) = 0;
  /// Of what this rank asked about first. False: it did not ask.
  virtual bool confirmed(SendWindow::Confirmation what) = 0;
  virtual Path path() const = 0;

  /// The connection broke: every operation with this peer fails with Error{PeerLost}.
  void fail(const std::string& why);
  /// Or with another error, where it is not the peer that failed.
  void fail_with(const Error& error);
  std::exception_ptr lost;
  bool lost_is_news = false;  // for the transport: it has not looked yet
};

/// Something that carries bytes between processes: what a transport of several networks (routed_transport.h)
/// asks of each. What comes goes into the rank's Inbox. Executor's thread only.
class Network {
 public:
  virtual ~Network() = default;
  /// Does what is ready, in and out, without blocking. True if anything was done.
  virtual bool poll() = 0;
  /// False: there is something to do, poll again instead of sleeping. True: event_fd() becomes readable when
  /// there is.
  virtual bool arm() = 0;
  virtual int event_fd() = 0;
  /// Nothing that was sent is still in this process's hands.
  virtual bool is_drained() const = 0;
  enum class End {
    InOrder,  // peers may still receive what was sent
    AtOnce,   // the rank's waits were cancelled
  };
  /// Closes everything. Before the peers die.
  virtual void close(End end) = 0;
};

}  // namespace taxon::net
