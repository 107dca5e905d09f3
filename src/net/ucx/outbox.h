#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "net/ucx/fragment_counts.h"
#include "net/wire/send_queue.h"
#include "net/wire/send_window.h"
#include "task/executor.h"

namespace taxon::net {

/// Active message numbers.
constexpr unsigned kFragmentMessage = 1;
constexpr unsigned kWakeMessage = 2;

enum class Checksums {
  Header,   // of headers only: links and memory have their own for payloads
  Payload,  // of payloads too
};

/// Sends messages and puts to one peer, one after the other, in fragments. The network never holds the
/// caller's memory, so an operation is done when its last byte was handed over, and can be recalled at any
/// time. A fragment goes straight out of the payload when the network takes all of it before the call
/// returns, as a socket with room in its buffer does; otherwise a copy of it waits for its turn.
class Outbox {
 public:
  struct Setting {
    Rank self;
    Rank peer;
    std::uint32_t epoch = 0;
    Checksums checksums = Checksums::Header;
    std::size_t fragment_bytes = 0;  // what the path carries in one piece, at most kLargestFragment
    /// Measures how much may be on its way (send_window.h). Null: the path itself holds no more than it can.
    const task::Executor* clock = nullptr;
  };
  static constexpr std::size_t kLargestFragment = 60 << 10;
  /// Copied fragments that the network holds at once: enough to keep a link busy between two polls.
  static constexpr int kWindow = 16;
  /// Where whole fragments have gone without a copy: one, whose turn wakes this rank to send on so.
  static constexpr int kDirectWindow = 1;
  /// Fragments per call: a receiver that is as fast as this rank would keep it here to the message's end.
  static constexpr int kBurst = 16;

  Outbox(Setting setting, Completions& completions);
  Outbox(const Outbox&) = delete;
  ~Outbox();

  std::size_t fragment_bytes() const { return setting_.fragment_bytes; }
  void open(ucp_ep_h endpoint) { endpoint_ = endpoint; }

  /// Queues a SendOp or PutOp and sends what the window admits. Does not complete `op` itself: true if it is
  /// done.
  bool start(Op& op);
  /// Sends more. True if anything was sent.
  bool pump();
  /// There is something to send and nothing to wait for: pump() must be called before this rank may sleep.
  bool ready() const {
    return !queue_.empty() && in_flight_ < window_ && !queue_.cut() && failure_ == UCS_OK && admitted();
  }
  /// Of what the receiver was asked about first. False: it was not asked.
  bool confirm(SendWindow::Confirmation confirmation) {
    return setting_.clock != nullptr && way_.confirm(setting_.clock->now(), confirmation);
  }
  /// False: the op was not queued here. When a part of it was sent the peer can't make sense of anything
  /// later, and nothing more is sent.
  bool forget(Op& op) { return queue_.forget(op); }

  bool has_queue() const { return !queue_.empty(); }
  /// Nothing is queued or held by the network.
  bool idle() const { return queue_.empty() && in_flight_ == 0; }
  /// The first failure of a fragment; UCS_OK without one.
  ucs_status_t failure() const { return failure_; }
  FragmentCounts counts() const { return counts_; }

 private:
  struct Fragment;
  static void sent(void* request, ucs_status_t status, void* fragment);
  Fragment* take_fragment();
  ConstView next_fragment() const { return queue_.next(setting_.fragment_bytes); }
  bool admitted() const { return setting_.clock == nullptr || way_.admits(next_fragment().size()); }
  bool must_confirm(std::size_t bytes);
  WireHeader header_for(ConstView part);
  /// False: the network can't take it now, and has taken nothing.
  bool send_direct(const WireHeader& header, ConstView part);
  void send_copy(const WireHeader& header, ConstView part);

  Setting setting_;
  SendQueue queue_;
  ucp_ep_h endpoint_ = nullptr;
  int in_flight_ = 0;  // copied fragments
  int window_ = kWindow;
  SendWindow way_;
  ucs_status_t failure_ = UCS_OK;
  std::vector<Fragment*> free_;
  std::vector<std::unique_ptr<Fragment>> fragments_;
  FragmentCounts counts_;
};

}  // namespace taxon::net
