#pragma once

#include <optional>

#include "net/ucx/card.h"
#include "net/ucx/context.h"
#include "net/ucx/memory.h"
#include "net/ucx/outbox.h"
#include "net/wire/signal_page.h"

namespace taxon::net {

/// Another rank, as one rank reaches it.
class Peer {
 public:
  enum class Place {
    SameHost,   // endpoint without failure detection, which UCX's shared memory does not have
    OtherHost,  // network devices only; a broken connection is noticed
  };
  Peer(Rank rank, Place place, Card card, Outbox::Setting setting, Completions& completions);
  Peer(const Peer&) = delete;

  const Rank rank;

  /// Makes the endpoint if there is none. A failure is set in `lost`.
  void connect(UcxContext& context);
  /// Maps the peer's signal page. Without shared memory between the two nothing changes.
  void map_page(UcxMemory& memory, std::uint32_t signals);
  bool shares_memory() const { return static_cast<bool>(page); }
  std::size_t fragment_bytes() const { return outbox.fragment_bytes(); }
  std::string describe_path() const;

  /// Starts to close an endpoint with failure detection (others close with their worker); what was sent still
  /// arrives. The request, or null when it is closed.
  ucs_status_ptr_t close();
  ucp_ep_h endpoint() const { return endpoint_; }
  /// Wakes the peer's poll loop.
  void wake();
  /// Tells the peer that what it asked about first has come.
  void confirm(SendWindow::Confirmation what);

  /// The endpoint broke: every operation with this peer fails with it.
  void fail(ucs_status_t status);
  std::exception_ptr lost;
  bool lost_is_news = false;  // for the transport: it has not looked yet

 private:
  static void broke(void* peer, ucp_ep_h endpoint, ucs_status_t status);
  Place place_;
  Card card_;
  ucp_ep_h endpoint_ = nullptr;
  WireHeader confirmation_;  // but for the time

 public:
  SignalPage page;
  Outbox outbox;
};

}  // namespace taxon::net
