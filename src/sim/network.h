#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "net/completions.h"
#include "net/mailbox.h"
#include "net/transport.h"
#include "sim/event_queue.h"
#include "sim/faults.h"
#include "sim/message.h"
#include "sim/message_cpu_cost.h"
#include "sim/timeline.h"
#include "sim/wiring.h"

namespace taxon::sim {

struct NetworkOptions {
  /// Regions of more bytes are phantoms.
  std::size_t phantom_above = SIZE_MAX;
  /// Per rank.
  std::uint32_t signals = 1024;
  ResourceTimeline* timeline = nullptr;
};

/// The virtual family of the door of bytes: one transport per rank over modelled links.
///
/// A message waits for the sender's end of its link, occupies it for overhead + bytes / bandwidth, and its
/// first byte arrives latency later at the next end, which it occupies, when its turn comes, for bytes /
/// bandwidth. Links serve messages one after the other, in the order in which first bytes arrive. A send or
/// put of up to `eager` bytes is copied and done at once, as a transport that buffers small messages does; a
/// larger one is done when its last byte has left the sender's end, as one that hands memory to the card. A
/// large message does not wait for its receive, as a rendezvous would.
///
/// Where the cluster says what messages cost the processors, those work on the thread that was given for the
/// rank: the sender's before a piece leaves, the receiver's before it is delivered. Messages are cut into
/// fragments then, so that wire and processors work at the same time.
///
/// Phantom payloads travel like others and are not copied. Owns the transports and their PendingOps; the
/// queue, the wiring and the faults outlive it.
class Network final : public MessageCpuCost::Listener {
 public:
  Network(EventQueue& queue, Wiring& wiring, Faults& faults, int ranks, NetworkOptions options);
  Network(const Network&) = delete;
  virtual ~Network();

  /// The thread that handles the rank's messages. Without it that takes no time.
  void set_thread(Rank rank, Thread& thread);
  void handled(Message& message, MessageCpuCost::End end) override;
  int size() const { return static_cast<int>(ranks_.size()); }
  net::Transport& transport(Rank rank);
  task::PendingOps& pending(Rank rank);
  /// From now on nothing reaches the rank, and what has not left it yet never does.
  void kill(Rank rank);
  /// Messages and puts that arrived.
  std::uint64_t delivered() const { return delivered_; }
  /// Puts into regions that were gone: normal when their owner failed, otherwise a bug of the code above.
  std::uint64_t stray_puts() const { return stray_puts_; }

 private:
  class RankTransport;
  struct Stage final : Action {
    Network& network;
    void (Network::*step)(Message&);
    Stage(Network& network, void (Network::*step)(Message&)) : network(network), step(step) {}
    void happen(std::uint64_t message) override { (network.*step)(*reinterpret_cast<Message*>(message)); }
    void at(Instant when, Message& message) {
      network.queue_.at(when, *this, reinterpret_cast<std::uint64_t>(&message));
    }
  };
  /// Deliveries that are held back, in the order of their keys.
  struct Held {
    Instant due;
    std::uint64_t count = 0;
  };

  RankTransport& at(Rank rank) {
    TAXON_CHECK(rank.value() >= 0 && rank.value() < size(), "rank ", rank.value());
    return *ranks_[static_cast<std::size_t>(rank.value())];
  }
  MessageCpuCost* cpu_cost(Rank rank) { return cpu_costs_[static_cast<std::size_t>(rank.value())].get(); }
  void send(Message& message);
  void note(Message& message, const Link& link, Link::Turn turn);
  void cut(Message& message);
  void depart(Message& message);
  void left(Message& message);
  void arrive(Message& message);
  void release(Message& message);
  void travel(Message& message);
  void deliver(Message& message);
  void hand_over(Message& message);
  bool lost(const Message& message);
  static std::uint64_t order_key(const Message& message);

  EventQueue& queue_;
  Wiring& wiring_;
  Faults& faults_;
  NetworkOptions options_;
  Stage left_, arrive_, release_, travel_, deliver_;
  MessagePool pool_;
  net::Completions completions_;
  std::unordered_map<std::uint64_t, Held> held_;  // never iterated
  std::uint64_t delivered_ = 0;
  std::uint64_t stray_puts_ = 0;
  std::vector<std::unique_ptr<task::PendingOps>> pending_;
  std::vector<std::unique_ptr<RankTransport>> ranks_;
  std::vector<std::unique_ptr<MessageCpuCost>> cpu_costs_;  // null: handling messages takes no time
};

}  // namespace taxon::sim
